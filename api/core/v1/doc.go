// Package v1 holds the resource of the group core.strimzi.io: StrimziPodSet, a set of pods of which each
// has its own description.
//
// The package must not know what runs in the pods.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=core.strimzi.io
package v1
