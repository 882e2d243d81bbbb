// Package v1alpha1 holds the resource of the group access.strimzi.io: KafkaAccess, which collects in one
// Secret what an application needs to connect to a Kafka cluster. Names, enumerations and rules are those of
// the public KafkaAccess operator 0.3, and the status is that of a provisioned service of the Service Binding
// specification 1.0.
//
// The package must not know how a field is acted on, and fills in no defaults.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=access.strimzi.io
package v1alpha1
