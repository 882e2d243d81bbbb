// Package finalizer removes the finalizer of KafkaUsers whose Kafka is gone. Nothing of them is left in a Kafka, and the
// user operator that would remove it may be gone too: its role is in the namespace that is being deleted.
package finalizer
