// Package model turns a Kafka resource, its node pools and what is known of the
// running cluster into a validated Cluster, and a Cluster into Kubernetes
// objects and broker configuration.
//
// It decides names, labels, node ids, listeners, subject alternative names,
// storage, broker properties, JVM options, the shape of pods and which of their
// differences call for a restart. It decides nothing about certificates: their
// fingerprints and generations enter the pod builder as values.
//
// Everything here is a function of its arguments. The package must not know the
// API server, the network, the file system, the clock or a log.
package model

//go:generate go test . -run ^TestTheFieldsPageIsCurrent$ -update
