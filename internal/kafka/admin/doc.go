// Package admin is what the operator asks of a running Kafka cluster and what it
// tells it: who leads the quorum, where partitions live and how many copies of
// each are in sync, which brokers are registered, which metadata version is in
// force.
//
// It reports facts. Whether a pod may restart, a broker may go or a version may
// rise is decided elsewhere from these values. It does not know Kubernetes.
package admin
