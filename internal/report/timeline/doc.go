// Package timeline is what a picture of a run shows: what each node trusted and
// presented, what each client saw, and when what happened.
//
// It must not know Kafka, nor where the findings come from, nor how they are drawn.
package timeline
