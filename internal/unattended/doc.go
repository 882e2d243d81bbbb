// Package unattended gives a status to objects at which no operator looks, so that they say which one is missing.
//
// It watches metadata alone: whether an object has a status is told by who manages its fields. It does not know what
// operators do, and never touches an object that has a status.
package unattended
