// Package client asks the agents of Kafka nodes. It adds what only they answer to what
// agents of every kind do.
package client
