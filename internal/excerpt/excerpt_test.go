package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keyturn/keyturn/internal/excerpt"
)

func TestTextsAreCutToALength(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		bytes int
		want  string
	}{
		"a text that fits":            {"refused", 7, "refused"},
		"one byte too many":           {"refused!", 7, "refu…"},
		"a character of several":      {"aéé", 4, "a…"},
		"room for less than the mark": {"refused", 2, ""},
		"nothing":                     {"", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := excerpt.Of(c.text, c.bytes)
			if got != c.want || len(got) > c.bytes || !utf8.ValidString(got) {
				t.Errorf("%q in %d bytes became %q, want %q", c.text, c.bytes, got, c.want)
			}
		})
	}
}

func TestWhatIsKeptOfATextDoesNotHoldTheWhole(t *testing.T) {
	t.Parallel()
	if got := excerpt.Of(strings.Repeat("x", 1<<20), excerpt.Foreign); len(got) != excerpt.Foreign {
		t.Errorf("%d bytes are kept, want %d", len(got), excerpt.Foreign)
	}
}

func TestListsNameWhatFitsAndCountTheRest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40)
	for name, c := range map[string]struct {
		items []string
		bytes int
		want  string
	}{
		"nothing":                        {nil, 20, ""},
		"all of them":                    {[]string{"a", "b", "c"}, 7, "a, b, c"},
		"more than fit":                  {[]string{"pod-0", "pod-1", "pod-2", "pod-3"}, 25, "pod-0, pod-1 and 2 more"},
		"a first one that is too long":   {[]string{long, "b"}, 20, "xxxxxx… and 1 more"},
		"the only one, which is so, too": {[]string{long}, 20, "xxxxxxxxxxxxxxxxx…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := excerpt.List(c.items, ", ", c.bytes); got != c.want || len(got) > c.bytes {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
