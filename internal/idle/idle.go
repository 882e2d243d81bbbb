// Package idle finds annotations by which people ask for something, and which have no effect where they are.
//
// What annotations of a kind of object mean is handed in: the package must not know any kind.
package idle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// Max is how many annotations of one object are reported. Any client may write thousands.
const Max = 8

// Annotation has no effect where it is.
type Annotation struct {
	Key, Value string
	// Why is the consequence and the remedy, to be put after the key.
	Why string
}

// Kind is what annotations mean on one kind of object.
type Kind struct {
	// Name of the kind with its article.
	Name string
	// IsRequest reports whether a key is one of those by which people ask operators for something.
	IsRequest func(key string) bool
	// Read are the keys that people may set. Written are keys that operators set.
	Read, Written []string
	// Switches are those of Read that are true or false.
	Switches []string
	// Elsewhere has the remedy for a key that has an effect on another object.
	Elsewhere map[string]string
}

// Find returns the first few annotations that have no effect, by key.
func (k Kind) Find(annotations map[string]string) []Annotation {
	unread := k.unread(annotations)
	idle := make([]Annotation, 0, min(len(unread), Max)+len(k.Switches))
	for _, key := range unread[:min(len(unread), Max)] {
		idle = append(idle, Annotation{key, annotations[key], "has no effect on " + k.Name + ": " + k.remedy(key)})
	}
	for _, key := range k.Switches {
		if value, is := annotations[key]; is && !IsSwitch(value) {
			idle = append(idle, Annotation{key, value, NotASwitch(value)})
		}
	}
	return idle
}

// Keep returns the annotations that Find looks at, without values that it does not read.
func (k Kind) Keep(annotations map[string]string) map[string]string {
	idle := k.Find(annotations)
	kept := make(map[string]string, len(idle))
	for _, annotation := range idle {
		kept[annotation.Key] = ""
		if slices.Contains(k.Switches, annotation.Key) {
			kept[annotation.Key] = excerpt.Of(annotation.Value, excerpt.Value)
		}
	}
	return kept
}

func (k Kind) unread(annotations map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(key string) bool {
		return !k.IsRequest(key) || slices.Contains(k.Read, key) || slices.Contains(k.Written, key)
	})
}

func (k Kind) remedy(key string) string {
	remedy, isElsewhere := k.Elsewhere[key]
	switch {
	case isElsewhere:
		return remedy
	case len(k.Read) == 0:
		return "no annotation is read there, so remove it"
	default:
		return "correct it if it is misspelled, or remove it; what is read there is " + strings.Join(k.Read, ", ")
	}
}

// IsSwitch reports whether a value is true or false, in any case of letters.
func IsSwitch(value string) bool {
	return strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
}

// NotASwitch is why an annotation has no effect whose value is neither true nor false.
func NotASwitch(value string) string {
	return fmt.Sprintf("is %q, which has no effect: set it to \"true\" or \"false\", or remove it", excerpt.Of(value, excerpt.Value))
}
