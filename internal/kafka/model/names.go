package model

import (
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// NodeID is the node.id of a Kafka node, unique over all pools of a cluster.
type NodeID int32

// String is the id in decimal.
func (id NodeID) String() string { return strconv.FormatInt(int64(id), 10) }

// Names derives the names of a cluster's objects. They are Strimzi's.
type Names struct {
	// Cluster is the name of the Kafka resource.
	Cluster string
	// Namespace is the namespace of the Kafka resource and all its objects.
	Namespace string
	// Domain is the DNS domain of the Kubernetes cluster.
	Domain string
}

// Kafka is the name of the component: ServiceAccount, PodDisruptionBudget,
// common name of node certificates, value of the label strimzi.io/name.
func (n Names) Kafka() string { return n.Cluster + "-kafka" }

// EntityOperator is the name of what runs beside the nodes for users and topics.
func (n Names) EntityOperator() string { return n.Cluster + "-entity-operator" }

// UserOperator is the common name by which nodes know the user operator.
func (n Names) UserOperator() string { return n.Cluster + "-entity-user-operator" }

// TopicOperator is the common name by which nodes know the topic operator.
func (n Names) TopicOperator() string { return n.Cluster + "-entity-topic-operator" }

// OperatorSecret is the Secret with the certificate of the cluster operator.
func (n Names) OperatorSecret() string { return n.Cluster + "-cluster-operator-certs" }

// UserOperatorSecret is the Secret with the certificate of a user operator beside the nodes.
func (n Names) UserOperatorSecret() string { return n.UserOperator() + "-certs" }

// TopicOperatorSecret is the Secret with the certificate of a topic operator beside the nodes.
func (n Names) TopicOperatorSecret() string { return n.TopicOperator() + "-certs" }

// BootstrapService is the Service that clients start from.
func (n Names) BootstrapService() string { return n.Cluster + "-kafka-bootstrap" }

// BrokersService is the headless Service that gives each pod its DNS name.
func (n Names) BrokersService() string { return n.Cluster + "-kafka-brokers" }

// NetworkPolicy is the name of the policy that says who may connect to the nodes.
func (n Names) NetworkPolicy() string { return n.Cluster + "-network-policy-kafka" }

// PodSet is the name of the StrimziPodSet of a pool.
func (n Names) PodSet(pool string) string { return n.Cluster + "-" + pool }

// Pod is the name of a node's pod, Secret and ConfigMap.
func (n Names) Pod(pool string, id NodeID) string {
	return n.Cluster + "-" + pool + "-" + id.String()
}

// NodeOf takes the name of a pod apart into its pool and its id; false for the name
// of anything else.
func (n Names) NodeOf(pod string) (pool string, id NodeID, ok bool) {
	rest, ours := strings.CutPrefix(pod, n.Cluster+"-")
	at := strings.LastIndexByte(rest, '-')
	if !ours || at < 1 {
		return "", 0, false
	}
	id, err := parseID(rest[at+1:])
	return rest[:at], id, err == nil && n.Pod(rest[:at], id) == pod
}

// NodeOfClaim returns the pool and the id of the node that a PersistentVolumeClaim is named
// after, and false for a name that no claim of a node has.
func (n Names) NodeOfClaim(claim string) (pool string, id NodeID, ok bool) {
	rest, ours := strings.CutPrefix(claim, "data-")
	if !ours {
		return "", 0, false
	}
	if pool, id, ok := n.NodeOf(rest); ok {
		return pool, id, true
	}
	volume, pod, _ := strings.Cut(rest, "-")
	if _, err := parseID(volume); err != nil {
		return "", 0, false
	}
	return n.NodeOf(pod)
}

// ClusterTrustSecret holds the anchors of the cluster CA, one entry each.
func (n Names) ClusterTrustSecret() string { return authorities.Cluster.TrustedCertsSecret(n.Cluster) }

// ClientsTrustSecret holds the anchors of the clients CA, one entry each.
func (n Names) ClientsTrustSecret() string { return authorities.Clients.TrustedCertsSecret(n.Cluster) }

// PodHost is the DNS name of a pod without the cluster domain. Brokers
// advertise it unless told otherwise.
func (n Names) PodHost(pod string) string { return pod + "." + n.BrokersDomain() }

// BrokersDomain is the DNS domain of all pods without the cluster domain.
func (n Names) BrokersDomain() string { return n.BrokersService() + "." + n.Namespace + ".svc" }

// BootstrapHost is the DNS name of the bootstrap Service without the cluster
// domain.
func (n Names) BootstrapHost() string { return n.BootstrapService() + "." + n.Namespace + ".svc" }

// withDomain appends the cluster domain to a service name ending in ".svc".
func (n Names) withDomain(host string) string { return host + "." + n.Domain }

// serviceHosts are the four names by which a Service is called in a cluster.
func (n Names) serviceHosts(service string) []string {
	inNamespace := service + "." + n.Namespace
	return []string{service, inNamespace, inNamespace + ".svc", n.withDomain(inNamespace + ".svc")}
}
