// Package topics is what Kafka holds of topics, what can be changed of one, and which texts of a property are the same value.
// It knows neither Kubernetes nor a client.
package topics
