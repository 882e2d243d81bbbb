// Package condition holds the form in which Strimzi's resources tell their state: the conditions in
// status. The form differs from Kubernetes' own in two ways that the types keep: there may be several
// conditions of one type (each warning is one), and a bad state is a condition of its own (NotReady is
// True) and not the absence of a good one.
//
// The package must not know which resource carries a condition, nor decide when one is set.
//
// +kubebuilder:object:generate=true
package condition
