// Package unknownfields finds the fields of a manifest that Keyturn does not act on, so that they can be
// reported and are never ignored in silence.
//
// It decides by the Go types of api/, which carry exactly the fields that are acted on, and must not know
// any of them by name. It is pure: no I/O, no clock.
package unknownfields
