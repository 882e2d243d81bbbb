package reach

import (
	"net"
	"strings"
)

// Node is a Kafka pod as the API server last described it.
type Node struct {
	// Name of the pod.
	Name string `json:"name"`
	// Host is the name the node advertises to clients.
	Host string `json:"host"`
	// UID tells a pod from its successor of the same name.
	UID string `json:"uid,omitempty"`
	// Address is the pod's IP address; empty while it has none.
	Address    string `json:"address,omitempty"`
	Ready      bool   `json:"ready"`
	Broker     bool   `json:"broker"`
	Controller bool   `json:"controller"`
	// Restarts of its containers since the pod was made.
	Restarts int32 `json:"restarts"`
	// Restart names the last restart of the server within its container that was asked for.
	Restart string `json:"restart,omitempty"`
}

// Names of one cluster, as Strimzi makes them.
type Names struct {
	Namespace string
	Cluster   string
}

// Brokers is the headless service behind the advertised names.
func (n Names) Brokers() string { return n.Cluster + "-kafka-brokers" }

// Bootstrap is the service clients start from.
func (n Names) Bootstrap() string { return n.Cluster + "-kafka-bootstrap" }

// BrokersHost is the name that stands for every broker, on any port.
func (n Names) BrokersHost() string { return n.Brokers() + "." + n.Namespace + ".svc" }

// BootstrapHost is the name a client is given.
func (n Names) BootstrapHost() string { return n.Bootstrap() + "." + n.Namespace + ".svc" }

// Host is the name a pod advertises on internal listeners.
func (n Names) Host(pod string) string {
	return pod + "." + n.Brokers() + "." + n.Namespace + ".svc"
}

// target of an advertised name.
type target int

const (
	targetOther target = iota
	targetPod
	targetBootstrap
)

// find says what an advertised name means; a pod is given by its name.
// The cluster's DNS domain, if there is one at the end, may be any.
func (n Names) find(host string) (kind target, pod string) {
	if net.ParseIP(host) != nil {
		return targetOther, ""
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	service := labels[0] == n.Bootstrap() || labels[0] == n.Brokers()
	if service && within(labels[1:], n.Namespace) {
		return targetBootstrap, ""
	}
	if len(labels) > 1 && labels[0] != "" && labels[1] == n.Brokers() && within(labels[2:], n.Namespace) {
		return targetPod, labels[0]
	}
	return targetOther, ""
}

// within says whether the labels after a service's name are of its namespace:
// nothing, the namespace, or the namespace, "svc" and a domain.
func within(labels []string, namespace string) bool {
	switch {
	case len(labels) == 0:
		return true
	case labels[0] != namespace:
		return false
	default:
		return len(labels) == 1 || labels[1] == "svc"
	}
}
