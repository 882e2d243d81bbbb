package unknownfields

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// InSpec returns the paths below spec in object that T, a resource of api/, has no field for: sorted, in the
// form of kubectl explain with an index for list items, as in spec.kafka.listeners[0].networkPolicyPeers.
// Of a subtree that is unknown as a whole, only the root is named. Null counts as absent.
//
// The object is the JSON object as the API server has it. Metadata and status are not looked at: the first
// is Kubernetes' own, the second is not the user's.
func InSpec[T any](object map[string]any) []string {
	spec, ok := fields(reflect.TypeFor[T]())["spec"]
	if !ok || object["spec"] == nil {
		return nil
	}
	paths := find(nil, "spec", object["spec"], spec)
	slices.Sort(paths)
	return paths
}

// find appends to paths what t, and what it is made of, has no field for in value.
func find(paths []string, path string, value any, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if readsItself(t) {
		return paths
	}
	switch value := value.(type) {
	case map[string]any:
		return findInObject(paths, path, value, t)
	case []any:
		if t.Kind() != reflect.Slice {
			return paths
		}
		for i, item := range value {
			paths = find(paths, path+"["+strconv.Itoa(i)+"]", item, t.Elem())
		}
	}
	return paths
}

func findInObject(paths []string, path string, object map[string]any, t reflect.Type) []string {
	member := memberOf(t)
	for name, value := range object {
		if value == nil {
			continue
		}
		if inner, known := member(name); known {
			paths = find(paths, path+"."+name, value, inner)
		} else {
			paths = append(paths, path+"."+name)
		}
	}
	return paths
}

// memberOf returns what tells the type of a member of t by its name, and whether there is one. A type that
// takes no objects says of every member that it is there: the form of values is the schema's business.
func memberOf(t reflect.Type) func(string) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Map:
		return func(string) (reflect.Type, bool) { return t.Elem(), true }
	case reflect.Struct:
		known := fields(t)
		return func(name string) (reflect.Type, bool) {
			inner, ok := known[name]
			return inner, ok
		}
	default:
		return func(string) (reflect.Type, bool) { return t, true }
	}
}

// readsItself tells whether values of t decide on their own what JSON they take: nothing in them is unknown.
func readsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// fields returns the fields of the struct t by their names in JSON, those of embedded structs among them.
func fields(t reflect.Type) map[string]reflect.Type {
	known := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
		case name != "":
			known[name] = field.Type
		case field.Anonymous:
			maps.Copy(known, fields(field.Type))
		}
	}
	return known
}
