// Package contract is what the operator and the agent inside a Kafka pod have to agree on
// besides what internal/publication says: the agent's configuration, the places and ports
// that both use, the names of the roles of a node, and what the agent tells of its server.
//
// It holds values and their encodings only. It knows neither Kubernetes nor the
// network, and it never decides what should be trusted.
package contract
