package contract

import "github.com/keyturn/keyturn/internal/publication"

// Places inside the Kafka container. The operator mounts them, the agent reads
// them; both sides use these constants and nothing else.
const (
	// BinaryPath is where the init container leaves the keyturn binary.
	BinaryPath = "/opt/keyturn/keyturn"
	// NodeDir mounts the node's own Secret: leaf, key, custom listener
	// certificates and the publication.
	NodeDir = "/etc/keyturn/node"
	// ClusterTrustDir mounts the Secret with the anchors of the cluster CA.
	ClusterTrustDir = "/etc/keyturn/cluster-trust"
	// ClientsTrustDir mounts the Secret with the anchors of the clients CA.
	ClientsTrustDir = "/etc/keyturn/clients-trust"
	// ConfigDir mounts the node's ConfigMap.
	ConfigDir = "/etc/keyturn/config"
	// PodDir mounts the pod's annotations through the downward API.
	PodDir = "/etc/keyturn/pod"
	// RunDir is a memory-backed scratch directory: rendered stores and
	// properties, which contain private keys, never reach a disk.
	RunDir = "/run/keyturn"
	// StoresDir holds the PEM stores under names with their fingerprint.
	StoresDir = RunDir + "/stores"
	// PropertiesPath is the broker configuration the server is started with.
	PropertiesPath = RunDir + "/server.properties"
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
	// PublicationKey is the key of Publication in the node's Secret.
	PublicationKey = "publication.json"
	// AnnotationsFile is the downward API file with the pod's annotations.
	AnnotationsFile = "annotations"
)

// Ports of the agent.
const (
	// SecurePort serves the operator over mutual TLS.
	SecurePort = 8443
	// ProbePort serves the kubelet's probes in plain HTTP; it tells nothing
	// but ready or not.
	ProbePort = 8080
)

// Paths of the agent's HTTP interface.
const (
	// TLSPath answers with a publication.Report.
	TLSPath = "/v1/tls"
	// ReadyPath answers with Readiness.
	ReadyPath = "/v1/ready"
	// LivePath answers 204 as long as the agent is alive; on ProbePort only.
	LivePath = "/v1/live"
	// BrokerStatePath answers with BrokerState.
	BrokerStatePath = "/v1/broker-state"
	// MetricsPath answers in the Prometheus text format; on SecurePort only.
	MetricsPath = "/metrics"
)

// The subject of the only peer that may ask the agent on SecurePort.
const (
	OperatorCommonName   = "cluster-operator"
	OperatorOrganization = "io.strimzi"
)

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

// Annotations of a Kafka pod that belong to the contract. They are not part of
// the pod's revision hash.
const (
	// PinAnnotation carries the Publication the pod was created under, as JSON.
	// The agent starts the server only on a publication whose revision is not
	// older: a kubelet may mount what it has cached.
	PinAnnotation = "keyturn.dev/pin"
	// PublishedAnnotation carries the newest published revision. Changing it
	// makes the kubelet sync the pod's volumes at once.
	PublishedAnnotation = "keyturn.dev/published-revision"
	// GivenAnnotation carries a Given as JSON. Together with the pin it tells which
	// anchors the pod was ever given, when all Secrets that told it are lost.
	GivenAnnotation = "keyturn.dev/given"
)

// OwnRoles are the roles of every node, whatever its listeners for clients.
func OwnRoles() []publication.Role {
	return []publication.Role{publication.AgentRole, RaftRole, ControlPlaneListener, ReplicationListener}
}
