// Package metrics shows the agent's state to Prometheus. Every value is read
// when it is asked for.
package metrics
