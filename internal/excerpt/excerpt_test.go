package excerpt_test

import (
	"slices"
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

func TestTextsDoNothingButBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"what a terminal obeys":          {"x\x1b[2J\x1b]0;title\x07", "x\ufffd[2J\ufffd]0;title\ufffd"},
		"a line of one's own":            {"x\nCLUSTER CA\tTrusted\r\n", "x CLUSTER CA Trusted  "},
		"separators of Unicode":          {"x\u2028y\u2029z", "x y z"},
		"controls beyond those of ASCII": {"x\u009b2J\x7f", "x\ufffd2J\ufffd"},
		"bytes that are no text":         {"x\x9b2J", "x\ufffd2J"},
		"writing from right to left":     {"x\u202etxt.exe\u2066", "x\ufffdtxt.exe\ufffd"},
		"words of any language":          {"Zertifikat läuft ab: 証明書", "Zertifikat läuft ab: 証明書"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := excerpt.Of(c.text, excerpt.Foreign); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := excerpt.List([]string{c.text, c.text}, ", ", excerpt.Foreign); got != c.want+", "+c.want {
				t.Errorf("a list of two is %q, want %q each", got, c.want)
			}
			many := excerpt.List(slices.Repeat([]string{c.text}, 100), ", ", 200)
			if len(many) > 200 || !strings.HasPrefix(many, c.want+", ") {
				t.Errorf("a list of many is %q, want %q each, and at most 200 bytes", many, c.want)
			}
		})
	}
}

func TestWhatIsReplacedFitsToo(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("\x9b", 10), strings.Repeat("\x1b", 10), strings.Repeat("\x1b", 30)} {
		if got := excerpt.Of(text, 10); len(got) > 10 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%q became %q, of %d bytes", text, got, len(got))
		}
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

func TestTheFirstFewAreNamedAndTheRestIsCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		items     []string
		separator string
		want      string
	}{
		"none":             {nil, ", ", ""},
		"one":              {[]string{"a"}, ", ", "a"},
		"as many as named": {[]string{"a", "b", "c"}, ", ", "a, b, c"},
		"one more":         {[]string{"a", "b", "c", "d"}, ", ", "a, b, c and 1 more"},
		"many sentences":   {[]string{"a", "b", "c", "d", "e"}, "; ", "a; b; c; and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := excerpt.First(c.items, excerpt.Named, c.separator); got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

func TestOfALongSentenceBeginningAndEndAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		bytes int
		want  string
	}{
		"a sentence that fits":        {"wrong: mend it", 14, "wrong: mend it"},
		"one byte too many":           {"wrong: mend it", 13, "wrong…nd it"},
		"characters of several bytes": {"ééééé", 8, "é…é"},
		"the end of a character":      {"ééééé", 6, "é…"},
		"what a terminal obeys":       {"a\x1bb", 9, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := excerpt.Ends(c.text, c.bytes)
			if got != c.want || len(got) > c.bytes || !utf8.ValidString(got) {
				t.Errorf("%q in %d bytes became %q, want %q", c.text, c.bytes, got, c.want)
			}
		})
	}
}
