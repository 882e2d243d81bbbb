// Package agent is what the operator and any agent have to agree on: where an agent finds
// what is published to it, where it is asked and by whom, and what it says of its being
// ready.
//
// It holds names, values and their encodings. It does not know what the agent's server is.
package agent
