// Package kstatus knows the two conditions by which tools that wait for resources of any kind tell apart what continues by
// itself and what needs a person: Reconciling and Stalled. Both follow from the other conditions of a resource.
//
// It is the one place that decides them for every kind, by a table of reasons. It does not decide other conditions, and
// does no I/O.
package kstatus
