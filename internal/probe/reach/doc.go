// Package reach decides how a program on this machine gets to the pods of a
// Kafka cluster under the names that the brokers advertise: directly, through
// the API server, or by the cluster's own DNS.
//
// It must not know what is said over the connections it opens.
package reach
