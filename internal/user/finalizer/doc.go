// Package finalizer removes the finalizers of KafkaUsers that name a Kafka which is gone. Nothing of them is left in a Kafka, and the
// user operator that would remove it may be gone too: its role is in the namespace that is being deleted.
package finalizer
