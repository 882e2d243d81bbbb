// Package install copies the agent's binary into the volume from which a Kafka
// container starts it.
package install
