package contract

import "github.com/keyturn/keyturn/internal/agent"

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
	// Log4j1Key holds the configuration of log4j 1, for Kafka before 4.0.
	Log4j1Key = "log4j.properties"
)

// BrokerStatePath is the path of the agent's HTTP interface that answers with BrokerState.
const BrokerStatePath = "/v1/broker-state"

// OperatorOrganization is the organization of the only peer that may ask the agent, beside
// agent.OperatorCommonName.
const OperatorOrganization = "io.strimzi"
