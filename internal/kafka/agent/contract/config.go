package contract

// Config is the part of a node's configuration that the agent itself acts on.
// It changes only with the shape of the node, never with a certificate.
type Config struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	PodName   string   `json:"podName"`
	NodeID    int32    `json:"nodeId"`
	Roles     []string `json:"roles"`
	// Stores lists every TLS listener of the node, sorted by listener.
	Stores []Store `json:"stores"`
	// JavaOptions are passed to the server's JVM in this order.
	JavaOptions []string `json:"javaOptions"`
	// DataDirs are the log directories, the metadata directory first.
	DataDirs []string `json:"dataDirs"`
	// GraceSeconds is how long the server may take to shut down cleanly.
	GraceSeconds int32 `json:"graceSeconds"`
}

// Domain names the authority whose anchors a listener trusts.
type Domain string

// The two authorities of a Kafka cluster.
const (
	ClusterDomain Domain = "cluster"
	ClientsDomain Domain = "clients"
)

// Store says where the key store and the trust store of one listener come from.
type Store struct {
	Listener Listener `json:"listener"`
	// Identity is NodeIdentity, or the listener itself when it has a custom
	// certificate.
	Identity string `json:"identity"`
	Trust    Domain `json:"trust"`
}
