// Package contract is what the operator and the agent inside a Kafka pod have to agree on
// besides what internal/agent and internal/publication say: the agent's configuration,
// where Kafka's files are, the names of the roles of a node, and what its server does.
//
// It holds values and their encodings only. It knows neither Kubernetes nor the
// network, and it never decides what should be trusted.
package contract
