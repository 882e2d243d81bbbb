package contract

import (
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Places inside the Kafka container, besides those of any agent.
const (
	// ClusterTrustDir mounts the Secret with the anchors of the cluster CA.
	ClusterTrustDir = "/etc/keyturn/cluster-trust"
	// ClientsTrustDir mounts the Secret with the anchors of the clients CA.
	ClientsTrustDir = "/etc/keyturn/clients-trust"
	// PropertiesPath is the broker configuration the server is started with.
	PropertiesPath = agent.RunDir + "/server.properties"
)

// Keys of the node's ConfigMap and Secret, and files of the downward API.
const (
	// ServerConfigKey holds the broker properties without any store setting.
	ServerConfigKey = "server.config"
	// AgentConfigKey holds Config as JSON.
	AgentConfigKey = "agent.json"
	// ClusterIDKey holds the KRaft cluster id.
	ClusterIDKey = "cluster.id"
	// MetadataVersionKey holds the metadata version used to format storage.
	MetadataVersionKey = "metadata.version"
	// LoggingKey holds the log4j2 configuration.
	LoggingKey = "log4j2.properties"
)

// BrokerStatePath is the path of the agent's HTTP interface that answers with BrokerState.
const BrokerStatePath = "/v1/broker-state"

// OperatorOrganization is the organization of the only peer that may ask the agent, beside
// agent.OperatorCommonName.
const OperatorOrganization = "io.strimzi"

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
