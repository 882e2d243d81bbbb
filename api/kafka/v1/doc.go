// Package v1 holds the resources of the group kafka.strimzi.io that Keyturn acts on: Kafka,
// KafkaNodePool and KafkaUser. Names, enumerations and rules are Strimzi's.
//
// The types carry only the fields that Keyturn acts on. The API server keeps every other field of a
// Strimzi manifest (package api/fields lists them, and the schema takes them from there), and the same
// package finds them so that they can be reported. A client that writes a whole object through these
// types would therefore drop fields: write by patch or server-side apply.
//
// The package must not know how any field is acted on, and fills in no defaults: an absent optional
// field is a nil pointer, and what absence means is decided where the field is read.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=kafka.strimzi.io
package v1
