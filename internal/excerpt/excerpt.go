package excerpt

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Foreign is how many bytes are kept of a text that somebody else has written: a
// failure that a node tells of, a name that it gives.
const Foreign = 1 << 10

// Value is how many bytes people are shown of a value that somebody has set.
const Value = 64

// Listed is how many bytes of a list are kept in a sentence. More than that nobody reads.
const Listed = 4 << 10

// Named is how many things of a kind a sentence names one by one.
const Named = 3

// Ellipsis ends a text that is cut.
const Ellipsis = "…"

// Of returns the text if it has at most so many bytes, or else its beginning, which
// says that it is one. It never cuts a character in two. The text stays one line that does
// nothing but be read: see plain.
func Of(text string, bytes int) string {
	whole := len(text) <= bytes
	if !whole {
		text = strings.ToValidUTF8(text[:max(0, bytes)], "")
	}
	text = plain(text)
	if whole && len(text) <= bytes {
		return text
	}
	if bytes < len(Ellipsis) {
		return ""
	}
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), bytes-len(Ellipsis))], "")) + Ellipsis
}

// Each returns the texts, each as Of does.
func Each[T ~string](texts []T, bytes int) []T {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = T(Of(string(texts[i]), bytes))
	}
	return texts
}

// Ends returns the text as Of does, but of one that is too long its beginning and its end:
// sentences begin with what is wrong, and end with what can be done about it.
func Ends(text string, bytes int) string {
	text = plain(text)
	if len(text) <= bytes {
		return text
	}
	end := max(0, bytes-len(Ellipsis)) / 2
	head := max(0, bytes-len(Ellipsis)) - end
	return strings.ToValidUTF8(text[:head], "") + Ellipsis + strings.ToValidUTF8(text[len(text)-end:], "")
}

// plain replaces what a terminal would obey, or a reader be misled by: control characters,
// marks that change the direction of writing, and bytes that are no text. What separates
// lines becomes a space.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		default:
			return r
		}
	}, text)
}

// List joins the items to at most so many bytes, and counts those that do not fit. The
// first is always named, cut if it has to be.
func List(items []string, separator string, bytes int) string {
	whole := strings.Join(items, separator)
	if text := plain(whole); len(text) <= bytes || len(items) == 0 {
		return text
	}
	items = slices.Clone(items)
	for i := range items {
		items[i] = plain(items[i])
	}
	used := 0
	fits := slices.IndexFunc(items, func(item string) bool {
		used += len(item) + len(separator)
		return used+len(more(len(items))) > bytes
	})
	if fits > 0 {
		return strings.Join(items[:fits], separator) + more(len(items)-fits)
	}
	rest := ""
	if len(items) > 1 {
		rest = more(len(items) - 1)
	}
	return Of(items[0], bytes-len(rest)) + rest
}

// First joins the first so many items, and counts the rest.
func First(items []string, count int, separator string) string {
	if len(items) <= count {
		return strings.Join(items, separator)
	}
	return strings.Join(items[:count], separator) + strings.TrimRight(separator, ", ") + more(len(items)-count)
}

// Numbered is the first text of one thing, and the second of several.
func Numbered(count int, one, several string) string {
	if count == 1 {
		return one
	}
	return several
}

func more(count int) string { return fmt.Sprintf(" and %d more", count) }
