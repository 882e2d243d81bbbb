// Package excerpt cuts texts to a length that can be kept and shown. Texts that
// come from outside, or that name one thing after the other, have no length of
// their own, and may hold what a terminal obeys.
//
// It decides where a text is cut, and which characters of it are shown. It does not know
// what the text is about.
package excerpt
