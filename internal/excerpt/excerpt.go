package excerpt

import "strings"

// Foreign is how many bytes are kept of a text that somebody else has written: a
// failure that a node tells of, a name that it gives.
const Foreign = 1 << 10

// ellipsis ends a text that is cut.
const ellipsis = "…"

// Of returns the text if it has at most so many bytes, or else its beginning, which
// says that it is one. It never cuts a character in two.
func Of(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	if bytes < len(ellipsis) {
		return ""
	}
	return strings.Clone(strings.ToValidUTF8(text[:bytes-len(ellipsis)], "")) + ellipsis
}
