// Package timeline decides how a run looks at a glance: what each node trusted and
// presented, what each client saw, and when what happened.
//
// It is pure: a time line goes in, an SVG or PNG comes out, the same for the same.
// It must not know Kafka, nor where the findings come from.
package timeline
