// Package keysearch finds private keys in whatever a cluster stores or says, and compares
// them with the certificates that were issued.
//
// It is not made of the operator's code and uses none of it: what the operator overlooks, it
// must not overlook for the same reason.
package keysearch
