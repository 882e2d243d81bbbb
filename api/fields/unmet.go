package fields

import (
	_ "embed" // unmet.yaml
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// unmetList is which fields without effect are missed; its head says in which form.
//
//go:embed unmet.yaml
var unmetList []byte

// unmet is the list by kind. Like the list of what may be written, it is part of the program.
var unmet = sync.OnceValue(func() map[string][]string {
	var kinds map[string][]string
	if err := yaml.UnmarshalStrict(unmetList, &kinds); err != nil {
		panic(fmt.Sprintf("parsing the list of fields that are missed: %v", err))
	}
	return kinds
})

var index = regexp.MustCompile(`\[[0-9]*\]`)

// isUnmet reports whether a field without effect of a kind asks for something that others can miss.
func isUnmet(kind, path string) bool {
	return slices.ContainsFunc(unmet()[kind], func(line string) bool { return names(line, path) })
}

// names reports whether a line of the list names a field.
func names(line, path string) bool {
	path = strings.TrimSuffix(index.ReplaceAllString(path, "[]"), "[]")
	parent, isAll := strings.CutSuffix(line, "*")
	return line == path || isAll && strings.HasPrefix(path, parent)
}

// byWeight separates fields without effect of a kind into two sorted lists: those whose effect is not
// missed, and those that are unmet.
func byWeight(kind string, paths []string) (withoutEffect, missed []string) {
	slices.Sort(paths)
	for _, path := range paths {
		if isUnmet(kind, path) {
			missed = append(missed, path)
		} else {
			withoutEffect = append(withoutEffect, path)
		}
	}
	return withoutEffect, missed
}
