package idle_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/idle"
)

func isRequest(key string) bool { return strings.HasPrefix(key, "example.com/") }

// lamp reads two annotations.
func lamp() idle.Kind {
	return idle.Kind{
		Name: "a Lamp", IsRequest: isRequest, Read: []string{"example.com/on", "example.com/color"}, Written: []string{"example.com/record"},
		Switches: []string{"example.com/on"}, Elsewhere: map[string]string{"example.com/wire": "set it on the House, and remove it here"},
	}
}

func TestAnnotationsWithoutEffectAreFoundWithTheirRemedy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind        idle.Kind
		annotations map[string]string
		want        map[string]string
	}{
		"a misspelled one": {
			lamp(),
			map[string]string{"example.com/colour": "red"},
			map[string]string{"example.com/colour": "has no effect on a Lamp: correct it if it is misspelled, or remove it; what is read there is example.com/on, example.com/color"},
		},
		"one of another object": {
			lamp(),
			map[string]string{"example.com/wire": "red"},
			map[string]string{"example.com/wire": "has no effect on a Lamp: set it on the House, and remove it here"},
		},
		"one of a kind that reads none": {
			idle.Kind{Name: "a Stone", IsRequest: isRequest},
			map[string]string{"example.com/on": "true"},
			map[string]string{"example.com/on": "has no effect on a Stone: no annotation is read there, so remove it"},
		},
		"a switch with another value": {
			lamp(),
			map[string]string{"example.com/on": "yes"},
			map[string]string{"example.com/on": `is "yes", which has no effect: set it to "true" or "false", or remove it`},
		},
		"those that are read": {lamp(), map[string]string{"example.com/on": "True", "example.com/color": "red"}, nil},
		"one of an operator":  {lamp(), map[string]string{"example.com/record": "{}"}, nil},
		"one of another tool": {lamp(), map[string]string{"example.org/on": "true"}, nil},
		"none":                {lamp(), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got map[string]string
			for _, found := range test.kind.Find(test.annotations) {
				if got == nil {
					got = map[string]string{}
				}
				got[found.Key] = found.Why
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("annotations differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFewOfManyAnnotationsAreReported(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{"example.com/on": "perhaps"}
	for i := range 1000 {
		annotations[fmt.Sprintf("example.com/%d", i)] = "x"
	}
	if found := lamp().Find(annotations); len(found) != idle.Max+1 {
		t.Errorf("%d annotations are reported, want %d and the switch", len(found), idle.Max)
	}
}

func TestWhatIsKeptOfAnnotationsIsReportedAsAllOfThem(t *testing.T) {
	t.Parallel()
	annotations := map[string]string{"example.com/on": strings.Repeat("on", 1000), "example.com/color": "red", "example.org/note": "x"}
	for i := range 20 {
		annotations[fmt.Sprintf("example.com/%d", i)] = strings.Repeat("x", 1000)
	}
	kept := lamp().Keep(annotations)
	size := 0
	for key, value := range kept {
		size += len(key) + len(value)
	}
	if size > 500 {
		t.Errorf("%d bytes are kept", size)
	}
	if again := lamp().Keep(kept); !maps.Equal(again, kept) {
		t.Errorf("%v are kept of %v", again, kept)
	}
	why := func(annotations map[string]string) (texts []string) {
		for _, found := range lamp().Find(annotations) {
			texts = append(texts, found.Key+" "+found.Why)
		}
		return texts
	}
	if diff := cmp.Diff(why(annotations), why(kept)); diff != "" {
		t.Errorf("reports differ (-of all +of what is kept):\n%s", diff)
	}
}
