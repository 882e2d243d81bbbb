// Package survey asks the servers of a Kafka cluster side by side what they are doing.
//
// It does not decide what follows from the answers, nor when a cluster is asked: internal/reports does that.
package survey
