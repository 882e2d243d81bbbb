package fields

import (
	_ "embed" // strimzi.yaml
	"fmt"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// list is what may be written; its head says in which form.
//
//go:embed strimzi.yaml
var list []byte

// known is the list by kind. It is part of the program, and every test of the package reads it: one that cannot
// be read never ships.
var known = sync.OnceValue(func() map[string]*node {
	kinds, err := parse(list)
	if err != nil {
		panic(err)
	}
	return kinds
})

// node is what may be written at one place. A place of which nothing is said takes any value.
type node struct {
	// fields of an object by name.
	fields map[string]*node
	// item of a list.
	item *node
	// value of a map by names of the user's.
	value *node
}

// member is the place of that name in an object, nil when there is none.
func (n *node) member(name string) *node {
	switch {
	case n == nil:
		return nil
	case n.value != nil:
		return n.value
	default:
		return n.fields[name]
	}
}

// items is the place of the items of a list, nil when nothing is said of them.
func (n *node) items() *node {
	if n == nil {
		return nil
	}
	return n.item
}

// parse reads a list of what may be written, by kind.
func parse(data []byte) (map[string]*node, error) {
	var kinds map[string]any
	if err := yaml.Unmarshal(data, &kinds); err != nil {
		return nil, fmt.Errorf("parsing the list of fields: %w", err)
	}
	nodes := make(map[string]*node, len(kinds))
	for kind, written := range kinds {
		nodes[kind] = newNode(written)
	}
	return nodes, nil
}

func newNode(written any) *node {
	object, isObject := written.(map[string]any)
	if !isObject {
		return &node{}
	}
	n := &node{fields: make(map[string]*node, len(object))}
	for name, inner := range object {
		place := newNode(inner)
		if item, isList := strings.CutSuffix(name, "[]"); isList {
			name, place = item, &node{item: place}
		} else if value, isMap := strings.CutSuffix(name, "{}"); isMap {
			name, place = value, &node{value: place}
		}
		n.fields[name] = place
	}
	return n
}
