// Package install copies the agent's binary into the volume from which the
// server's container starts it.
package install
