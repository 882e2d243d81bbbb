// Package unattended knows by the metadata of an object whether an operator has written its status, and which status it
// gets instead: one that names the operator that is missing. It does not know what operators do.
package unattended
