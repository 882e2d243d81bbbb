// Package excerpt cuts texts to a length that can be kept and shown. Texts that
// come from outside, or that name one thing after the other, have no length of
// their own.
//
// It decides where a text is cut. It does not know what the text is about.
package excerpt
