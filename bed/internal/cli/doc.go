// Package cli is the command line of the bed: it says what each command does, in which order it asks the other
// packages to do it, and what a person reads meanwhile.
package cli
