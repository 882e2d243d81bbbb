package reload

import (
	"path"
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// plan is one attempt to change what the server runs on.
type plan struct {
	// slots are to be written before.
	slots   []slot
	changes []local.Change
	// expectations are what the listeners are to show afterwards.
	expectations []expectation
}

// slot is a file with a store of a listener.
type slot struct {
	listener stores.Listener
	kind     stores.Kind
	name     string
}

// loading plans to load the changed stores: each into the slot that the server
// has not set, and then all of them by one request. directory is where the
// server finds slots.
func loading(directory string, wanted []stores.Listener, changed []Store, settings map[string]local.Setting) plan {
	var p plan
	for _, l := range wanted {
		e := expectation{listener: l, effective: map[string]string{}}
		for _, kind := range stores.Kinds() {
			if !slices.Contains(changed, Store{Listener: l.Name, Kind: kind}) {
				continue
			}
			setting := kind.LocationSetting(l.Name)
			free := slot{listener: l, kind: kind, name: freeSlot(directory, l.Name, kind, settings[setting].Dynamic)}
			location := path.Join(directory, free.name)
			p.slots = append(p.slots, free)
			p.changes = append(
				p.changes,
				local.Change{Name: kind.TypeSetting(l.Name), Value: new(stores.StoreType)},
				local.Change{Name: setting, Value: &location},
			)
			e.effective[setting] = location
		}
		if len(e.effective) > 0 {
			p.expectations = append(p.expectations, e)
		}
	}
	return p
}

// freeSlot is the name of the slot that is not set.
func freeSlot(directory string, listener publication.Role, kind stores.Kind, set *string) string {
	free := ""
	for _, s := range slices.Backward(stores.Slots()) {
		if name := kind.Slot(listener, s); set == nil || *set != path.Join(directory, name) {
			free = name
		}
	}
	return free
}

// forgetting plans to delete the settings of earlier reloads, so that the server falls
// back to what it was started with. It leaves out a listener whose settings name another
// file than a slot, because another client made them.
func forgetting(directory string, started []stores.Listener, settings map[string]local.Setting) plan {
	var p plan
	for _, l := range started {
		if !isDynamic(l.Name, settings) || !isOurs(directory, l.Name, settings) {
			continue
		}
		e := expectation{listener: l, effective: map[string]string{}}
		for _, kind := range stores.Kinds() {
			p.changes = append(p.changes, local.Change{Name: kind.TypeSetting(l.Name)}, local.Change{Name: kind.LocationSetting(l.Name)})
			e.effective[kind.LocationSetting(l.Name)] = path.Join(directory, l.File(kind))
		}
		p.expectations = append(p.expectations, e)
	}
	return p
}

// isOurs reports whether every store that the settings name is a slot.
func isOurs(directory string, listener publication.Role, settings map[string]local.Setting) bool {
	for _, kind := range stores.Kinds() {
		set := settings[kind.LocationSetting(listener)].Dynamic
		if set != nil && !slices.ContainsFunc(stores.Slots(), func(s stores.Slot) bool {
			return *set == path.Join(directory, kind.Slot(listener, s))
		}) {
			return false
		}
	}
	return true
}

// stores are those that are to be loaded.
func (p plan) stores() []Store {
	list := make([]Store, 0, len(p.slots))
	for _, s := range p.slots {
		list = append(list, Store{Listener: s.listener.Name, Kind: s.kind})
	}
	return list
}

func namesOf(expectations []expectation) []publication.Role {
	list := make([]publication.Role, 0, len(expectations))
	for _, e := range expectations {
		list = append(list, e.listener.Name)
	}
	return list
}

func listenersOf(expectations []expectation) []stores.Listener {
	list := make([]stores.Listener, 0, len(expectations))
	for _, e := range expectations {
		list = append(list, e.listener)
	}
	return list
}
