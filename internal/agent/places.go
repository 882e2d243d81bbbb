package agent

import "strings"

// Places inside the container of a server. The operator mounts them, the agent reads
// them; both sides use these constants and nothing else.
const (
	// ImageBinaryPath is the agent in the operator's image.
	ImageBinaryPath = "/keyturn-agent"
	// BinaryPath is where the init container leaves the agent.
	BinaryPath = "/opt/keyturn/keyturn-agent"
	// NodeDir mounts the member's own Secret: leaf, key, custom listener
	// certificates and the publication.
	NodeDir = "/etc/keyturn/node"
	// ConfigDir mounts the member's ConfigMap.
	ConfigDir = "/etc/keyturn/config"
	// PodDir mounts the pod's annotations through the downward API.
	PodDir = "/etc/keyturn/pod"
	// RunDir is a memory-backed scratch directory: rendered stores and
	// properties, which contain private keys, never reach a disk.
	RunDir = "/run/keyturn"
	// StoresDir holds the PEM stores under names with their fingerprint.
	StoresDir = RunDir + "/stores"
)

const (
	// PublicationKey is the key of the publication in the member's Secret.
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
	// MetricsPath answers in the Prometheus text format; on SecurePort only.
	MetricsPath = "/metrics"
)

// OperatorCommonName is the common name of the only peer that may ask the agent on
// SecurePort.
const OperatorCommonName = "cluster-operator"

// Annotations of a pod with an agent. They are not part of the pod's revision hash.
const (
	// PinAnnotation carries the publication the pod was created under, as JSON.
	// The agent starts the server only on a publication whose revision is not
	// older: a kubelet may mount what it has cached.
	PinAnnotation = "keyturn.dev/pin"
	// PublishedAnnotation carries the newest published revision. Changing it
	// makes the kubelet sync the pod's volumes at once.
	PublishedAnnotation = "keyturn.dev/published-revision"
	// GivenAnnotation carries a publication.Given as JSON. Together with the pin it tells
	// which anchors the pod was ever given, when all Secrets that told it are lost.
	GivenAnnotation = "keyturn.dev/given"
)

// TopicOperator is the process of the topic operator in the pod that it shares with the user operator.
const TopicOperator = "topic-operator"

// AnnotationOf is an annotation of a pod as one of its processes has it. Processes that share a pod have annotations of
// their own, and the one without a name has those that a process has by itself.
func AnnotationOf(process, annotation string) string {
	domain, name, qualified := strings.Cut(annotation, "/")
	if process == "" || !qualified {
		return annotation
	}
	return domain + "/" + process + "-" + name
}

// PublicationAnnotations are those of a pod with what is published to its processes.
func PublicationAnnotations() []string {
	processes, annotations := []string{"", TopicOperator}, []string{PinAnnotation, PublishedAnnotation, GivenAnnotation}
	all := make([]string, 0, len(processes)*len(annotations))
	for _, process := range processes {
		for _, annotation := range annotations {
			all = append(all, AnnotationOf(process, annotation))
		}
	}
	return all
}
