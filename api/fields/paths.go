package fields

import (
	"reflect"
	"slices"
)

// Paths are the fields that a kind may have below spec, in the form of kubectl explain with [] after what holds a
// list: sorted.
type Paths struct {
	// Acted are acted on.
	Acted []string
	// Own are among Acted, and not Strimzi's.
	Own []string
	// Kept are known and do nothing, and their effect is not missed. Unmet do nothing either, so that what
	// there is differs from what they ask for. Of a subtree only the root is named.
	Kept, Unmet []string
}

// PathsOf returns the fields of T, which is a kind of api/.
func PathsOf[T any]() Paths {
	t := reflect.TypeFor[T]()
	var paths Paths
	paths.add("spec", place{acted: members(t)["spec"], known: known()[t.Name()]})
	paths.Kept, paths.Unmet = byWeight(t.Name(), paths.Kept)
	slices.Sort(paths.Acted)
	slices.Sort(paths.Own)
	return paths
}

// add adds what may be written at a place, which is acted on.
func (p *Paths) add(path string, at place) {
	for at.acted.Kind() == reflect.Pointer {
		at.acted = at.acted.Elem()
	}
	if item, isList := at.item(); isList && !readsItself(at.acted) {
		p.add(path+"[]", item)
		return
	}
	if at.acted.Kind() != reflect.Struct || readsItself(at.acted) {
		p.Acted = append(p.Acted, path)
		return
	}
	for name := range members(at.acted) {
		inner, _ := at.member(name)
		if inner.known == nil && at.known != nil {
			p.Own = append(p.Own, path+"."+name)
		}
		p.add(path+"."+name, inner)
	}
	p.addKept(path, at)
}

// addKept adds what is listed in an object and not acted on.
func (p *Paths) addKept(path string, at place) {
	if at.known == nil {
		return
	}
	for name, listed := range at.known.fields {
		if _, acted := members(at.acted)[name]; acted {
			continue
		}
		kept := path + "." + name
		if listed.item != nil {
			kept += "[]"
		}
		p.Kept = append(p.Kept, kept)
	}
}
