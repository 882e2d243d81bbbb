// Package evidence turns what is known of a cluster (the CA certificates that anybody
// holds, what is published to each node, what each agent has reported) into the snapshot
// from which internal/trust decides.
//
// It compares keys and signatures, so that trust needs to compare names only. It
// decides nothing, and knows neither Kubernetes nor the network nor a clock.
package evidence
