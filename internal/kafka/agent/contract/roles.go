package contract

import "github.com/keyturn/keyturn/internal/publication"

// The two internal listeners of every cluster.
const (
	// ControlPlaneListener carries the Raft quorum; nodes with the controller
	// role listen on it.
	ControlPlaneListener publication.Role = "controlplane-9090"
	// ReplicationListener carries replication and the operators' requests; nodes
	// with the broker role listen on it.
	ReplicationListener publication.Role = "replication-9091"
)

// RaftRole names, among the roles of a publication's trust and of a report, the
// Raft client of a node. It keeps what its process was started with. Where the
// publication names no trust for it, that is the trust of ControlPlaneListener.
const RaftRole publication.Role = "raft"

// Ports of the internal listeners.
const (
	ControlPlanePort = 9090
	ReplicationPort  = 9091
)

// OwnRoles are the roles of every node, whatever its listeners for clients.
func OwnRoles() []publication.Role {
	return []publication.Role{publication.AgentRole, RaftRole, ControlPlaneListener, ReplicationListener}
}
