// Package server answers the operator besides what any agent answers: in which state the
// Kafka server is. It knows the operator of a Kafka cluster by its subject.
package server
