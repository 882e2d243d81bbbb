// Package principal knows what Kafka holds for one of its users: ACLs, quotas and a password. It compares what
// Kafka holds with what it shall hold.
//
// It knows no Kubernetes and connects to nothing.
package principal
