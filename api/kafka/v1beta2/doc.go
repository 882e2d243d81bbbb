// Package v1beta2 holds KafkaAccess of the group kafka.strimzi.io, in the form of Strimzi's proposal 033. It asks for
// the same as KafkaAccess of the group access.strimzi.io, and differs in how a listener and a user are referred to.
//
// The package must not know how a field is acted on, and fills in no defaults.
//
// +kubebuilder:object:generate=true
// +groupName=kafka.strimzi.io
package v1beta2
