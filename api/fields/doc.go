// Package fields tells what becomes of the fields of a manifest: which of them Keyturn acts on, which it knows
// and does nothing about, and which no Kafka or KafkaNodePool has, so that each can be reported and none is
// ignored in silence.
//
// What is acted on is what the Go types of api/ carry. What else may be written is in strimzi.yaml, of which the
// CustomResourceDefinitions are made too. The package must not know any field by name. It is pure: no I/O, no
// clock.
package fields
