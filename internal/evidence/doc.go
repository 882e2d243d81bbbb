// Package evidence turns what is known of a cluster into the snapshot from which internal/trust decides.
// That is all known CA certificates, what is published to each node, and what each agent has reported.
//
// It compares keys and signatures, so that trust needs to compare names only. It
// decides nothing, and knows neither Kubernetes nor the network nor a clock.
package evidence
