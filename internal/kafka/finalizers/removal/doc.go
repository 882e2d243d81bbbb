// Package removal removes the finalizers of KafkaUsers and KafkaTopics that name a Kafka which is gone. Nothing of them is left in a
// Kafka, and the operator that would remove them may be gone too: its role is in the namespace that is being deleted.
package removal
