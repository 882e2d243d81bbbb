// Package operate is what operators do around their decisions: they write statuses and the events
// that follow from them.
//
// It does not know the resources, nor what is decided about them.
package operate
