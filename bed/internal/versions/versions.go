package versions

import "strings"

// What the node is made of. Every version of the bed is pinned here and nowhere else; the go.mod files under parts
// are generated from this table and a test holds them to it.
const (
	// Kubernetes is the version of k8s.io/kubernetes; the staging modules carry the same number with major version 0.
	Kubernetes = "v1.37.2"
	// KubernetesEtcd is the etcd behind the API server: the version that the Kubernetes module itself asks for.
	KubernetesEtcd = "v3.7.0"
	// Containerd is the container runtime and its shim.
	Containerd = "v2.4.2"
	// Runc starts the containers.
	Runc = "v1.5.2"
	// CNIPlugins gives bridge, host-local, portmap and loopback.
	CNIPlugins = "v1.10.0"
	// CoreDNS answers names inside the cluster.
	CoreDNS = "v1.15.0"
	// CertManager is the controller that issues Certificates; its CRDs come from the same module.
	CertManager = "v1.21.2"
)

// What runs on the node: the images that the bed makes for the product's scenarios.
const (
	// KafkaNew is the Kafka version that clusters run by default.
	KafkaNew = "4.3.1"
	// KafkaOld is the version that an upgrade starts from.
	KafkaOld = "4.2.1"
	// EtcdNew is the etcd of the 3.6 image.
	EtcdNew = "v3.6.16"
	// EtcdOld is the etcd of the 3.5 image.
	EtcdOld = "v3.5.35"
	// Log4j is the logging backend laid into the Kafka images.
	Log4j = "2.25.3"
	// Reload4j is that of Kafka before 4.0, and SLF4J1 the version of the bridge to it.
	Reload4j = "1.2.25"
	SLF4J1   = "1.7.36"
)

// Kafka are the versions whose servers tests run, the newest first: the first and the last patch of each minor release.
func Kafka() []string {
	return []string{KafkaNew, "4.3.0", "4.2.2", KafkaOld, "4.2.0", "4.1.2", "4.1.0", "4.0.2", "4.0.0", "3.9.2", "3.9.0"}
}

// HasLog4j1 reports whether a version of Kafka writes its log by log4j 1.
func HasLog4j1(kafka string) bool { return strings.HasPrefix(kafka, "3.") }
