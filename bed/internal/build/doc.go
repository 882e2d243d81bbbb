// Package build makes the programs that the node and the images consist of, from released Go modules and jars.
//
// Every step's result lies in the state folder under a key of everything that went into it; a step whose result is
// there is not done again. The package starts nothing and loads nothing.
package build
