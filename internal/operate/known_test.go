package operate_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/operate"
)

func TestWhatIsKnownOfAResourceIsTheLastAndEndsWithIt(t *testing.T) {
	t.Parallel()
	var known operate.Known[string, int]
	if _, isKnown := known.Put("one", 1); isKnown {
		t.Error("a new resource was known")
	}
	known.Put("two", 2)
	if before, isKnown := known.Put("one", 10); !isKnown || before != 1 {
		t.Errorf("%d was known, want 1", before)
	}
	if last, isKnown := known.Of("one"); !isKnown || last != 10 {
		t.Errorf("%d is known, want 10", last)
	}
	known.Forget("one")
	if _, isKnown := known.Of("one"); isKnown || known.Len() != 1 || !slices.Equal(slices.Collect(maps.Values(known.All())), []int{2}) {
		t.Errorf("%v is known after one was forgotten", known.All())
	}
}
