package fields

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Found are the fields of a manifest that Keyturn does not act on, as paths in the form of kubectl
// explain. List items have an index, such as spec.kafka.listeners[0].configuration.class. Each list is
// sorted, and of a subtree only the root is named.
type Found struct {
	// WithoutEffect are known and do nothing, and their effect is not missed.
	WithoutEffect []string
	// Unmet are known and do nothing, so that what there is differs from what they ask for.
	Unmet []string
	// Unknown are no fields of the kind: they are misspelled, stand at the wrong place, or are newer than Keyturn.
	Unknown []string
}

// InSpec looks through the spec of object, which is a T of api/. Null counts as absent.
//
// The object is the JSON object as the API server has it. Metadata and status are not looked at: the first
// is Kubernetes' own, the second is not the user's.
func InSpec[T any](object map[string]any) Found {
	t := reflect.TypeFor[T]()
	spec, ok := members(t)["spec"]
	if !ok || object["spec"] == nil {
		return Found{}
	}
	var found Found
	found.look("spec", object["spec"], place{acted: spec, known: known()[t.Name()]})
	found.WithoutEffect, found.Unmet = byWeight(t.Name(), found.WithoutEffect)
	slices.Sort(found.Unknown)
	return found
}

// place is a place in a manifest, with what is said of it.
type place struct {
	// acted is the type by which it is acted on, nil where nothing is.
	acted reflect.Type
	// known is what may be written there, nil where the list says nothing.
	known *node
}

// look adds what is found in value, which stands at a place.
func (f *Found) look(path string, value any, at place) {
	for at.acted != nil && at.acted.Kind() == reflect.Pointer {
		at.acted = at.acted.Elem()
	}
	if at.acted != nil && readsItself(at.acted) {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if inner != nil {
				f.lookInside(path+"."+name, inner, at, name)
			}
		}
	case []any:
		item, inList := at.item()
		for i, inner := range value {
			if inList {
				f.look(path+"["+strconv.Itoa(i)+"]", inner, item)
			}
		}
	}
}

func (f *Found) lookInside(path string, value any, at place, name string) {
	inner, exists := at.member(name)
	if !exists {
		f.Unknown = append(f.Unknown, path)
		return
	}
	if at.acted != nil && inner.acted == nil {
		f.WithoutEffect = append(f.WithoutEffect, path)
	}
	f.look(path, value, inner)
}

// member is the place of that name in an object, and whether there is one. A place that takes no objects has
// every member: the form of values is the schema's business.
func (p place) member(name string) (place, bool) {
	inner := place{known: p.known.member(name)}
	if p.acted == nil {
		return inner, inner.known != nil || p.known == nil || p.known.fields == nil
	}
	switch p.acted.Kind() {
	case reflect.Map:
		inner.acted = p.acted.Elem()
	case reflect.Struct:
		inner.acted = members(p.acted)[name]
	default:
		inner.acted = p.acted
	}
	return inner, inner.acted != nil || inner.known != nil
}

// item is the place of the items of a list, and whether it has any.
func (p place) item() (place, bool) {
	inner := place{known: p.known.items()}
	if p.acted == nil {
		return inner, inner.known != nil
	}
	if p.acted.Kind() != reflect.Slice {
		return inner, false
	}
	inner.acted = p.acted.Elem()
	return inner, true
}

// readsItself tells whether values of t decide on their own what JSON they take: nothing in them is unknown.
func readsItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// members returns the fields of the struct t by their names in JSON, those of embedded structs among them.
func members(t reflect.Type) map[string]reflect.Type {
	known := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
		case name != "":
			known[name] = field.Type
		case field.Anonymous:
			maps.Copy(known, members(field.Type))
		}
	}
	return known
}
