// Package contract is what the operator and the agent inside a Kafka pod tell
// each other: the agent's configuration, the publication that names the trust
// and identity of each role, and the report of what a running server has
// loaded.
//
// It holds values and their encodings only. It knows neither Kubernetes nor the
// network, and it never decides what should be trusted.
package contract
