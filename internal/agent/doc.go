// Package agent is what the operator and any agent have to agree on. That is where an agent finds what is
// published to it, where which clients ask it, and what it reports of its readiness.
//
// It holds names, values and their encodings. It does not know what the agent's server is.
package agent
