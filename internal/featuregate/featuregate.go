// Package featuregate reads which features that are off by default a person has turned on, in Strimzi's form.
// It is pure: no I/O, no clock.
package featuregate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// State is that of a gate. The zero value is Off.
type State int

const (
	// Off means that the feature is not available.
	Off State = iota
	// On means that the feature is available to those who ask for it.
	On
)

// String is how logs and tests name the state.
func (s State) String() string {
	if s == On {
		return "on"
	}
	return "off"
}

// Gates are the states of all gates. The zero value is what holds when nothing is set.
type Gates struct {
	// CertManagerCaType lets a CA have the type cert-manager.io.
	CertManagerCaType State
}

// What is wrong with a setting.
var (
	ErrMalformed = errors.New("malformed feature gate")
	ErrUnknown   = errors.New("unknown feature gate")
	ErrRepeated  = errors.New("feature gate is set twice")
)

// Parse reads settings with commas between them: +Name turns a gate on, -Name turns it off. Text without any is the
// default of all gates. Errors are ErrMalformed, ErrUnknown or ErrRepeated, and name the setting and all known gates.
func Parse(text string) (Gates, error) {
	var gates Gates
	if strings.TrimSpace(text) == "" {
		return gates, nil
	}
	unset := gates.byName()
	for setting := range strings.SplitSeq(text, ",") {
		state, name, err := parseSetting(strings.TrimSpace(setting))
		if err != nil {
			return Gates{}, err
		}
		gate, isUnset := unset[name]
		if !isUnset {
			return Gates{}, refused(name)
		}
		*gate = state
		delete(unset, name)
	}
	return gates, nil
}

// Setting is what Parse reads as these gates: those that are on, empty when none is.
func (g *Gates) Setting() string {
	var on []string
	gates := g.byName()
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if *gates[name] == On {
			on = append(on, "+"+name)
		}
	}
	return strings.Join(on, ",")
}

func parseSetting(setting string) (State, string, error) {
	if name, isOn := strings.CutPrefix(setting, "+"); isOn && name != "" {
		return On, name, nil
	}
	if name, isOff := strings.CutPrefix(setting, "-"); isOff && name != "" {
		return Off, name, nil
	}
	return Off, "", fmt.Errorf("%w %q: write +Name or -Name, with commas between them; known gates: %s", ErrMalformed, setting, known())
}

// refused tells a gate that was set before from one that does not exist.
func refused(name string) error {
	var all Gates
	if _, exists := all.byName()[name]; exists {
		return fmt.Errorf("%w: %q: set it once; known gates: %s", ErrRepeated, name, known())
	}
	return fmt.Errorf("%w %q: remove it, or correct its name; known gates: %s", ErrUnknown, name, known())
}

func (g *Gates) byName() map[string]*State {
	return map[string]*State{"CertManagerCaType": &g.CertManagerCaType}
}

func known() string {
	var all Gates
	return strings.Join(slices.Sorted(maps.Keys(all.byName())), ", ")
}
