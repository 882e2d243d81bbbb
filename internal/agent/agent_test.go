package agent_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/excerpt"
)

func TestAnnotationsOfTheDownwardAPI(t *testing.T) {
	t.Parallel()
	got, err := agent.ParseAnnotations([]byte("a=\"1\"\nkeyturn.dev/pin=\"{\\\"revision\\\":7}\"\nempty=\"\"\nlines=\"x\\ny=z\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "1", "keyturn.dev/pin": `{"revision":7}`, "empty": "", "lines": "x\ny=z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestAnnotationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"a line without a value": "a\n", "a value without quotes": "a=1\n", "a value that is cut off": "a=\"1\n",
		"a line without end": "a=" + strings.Repeat("x", 2<<20),
	} {
		if got, err := agent.ParseAnnotations([]byte(data)); err == nil {
			t.Errorf("%s: read as %v, want an error", name, got)
		}
	}
}

func FuzzParseAnnotations(f *testing.F) {
	f.Add("a=\"1\"\nb=\"\\u00e9\"\n")
	f.Add("=")
	f.Fuzz(func(t *testing.T, data string) {
		annotations, err := agent.ParseAnnotations([]byte(data))
		if err != nil {
			return
		}
		for key, value := range annotations {
			again, err := agent.ParseAnnotations([]byte(key + "=" + strconv.Quote(value)))
			if err != nil || again[key] != value {
				t.Errorf("annotation %q=%q is read again as %v, %v", key, value, again, err)
			}
		}
	})
}

func TestTextsOfAReadinessAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4<<10)
	kept := agent.Readiness{Reason: long, WaitingFor: []string{long}}.Excerpt()
	if len(kept.Reason) > excerpt.Foreign || len(kept.WaitingFor[0]) > excerpt.Foreign {
		t.Errorf("a reason of %d bytes, and %d that are waited for, want at most %d", len(kept.Reason), len(kept.WaitingFor[0]), excerpt.Foreign)
	}
}
