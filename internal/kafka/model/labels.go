package model

import (
	"maps"
	"strconv"
	"strings"
)

// Labels, as Strimzi sets them.
const (
	// KindLabel names the kind of the resource that an object belongs to.
	KindLabel = "strimzi.io/kind"
	// ClusterLabel names the Kafka that an object, or a KafkaNodePool, belongs to.
	ClusterLabel = "strimzi.io/cluster"
	// NameLabel names the component of an object.
	NameLabel = "strimzi.io/name"
	// ComponentTypeLabel names the kind of component.
	ComponentTypeLabel = "strimzi.io/component-type"
	// PoolLabel names the node pool of an object.
	PoolLabel = "strimzi.io/pool-name"
	// PodLabel names the pod on the pod itself, to be selected by.
	PodLabel = "strimzi.io/pod-name"
	// ControllerLabel says that a pod belongs to a StrimziPodSet.
	ControllerLabel = "strimzi.io/controller"
	// ControllerNameLabel names that StrimziPodSet.
	ControllerNameLabel = "strimzi.io/controller-name"
	// BrokerRoleLabel is "true" on pods with the broker role, else "false".
	BrokerRoleLabel = "strimzi.io/broker-role"
	// ControllerRoleLabel is "true" on pods with the controller role, else "false".
	ControllerRoleLabel = "strimzi.io/controller-role"
	// DiscoveryLabel marks Services that tools may offer to applications.
	DiscoveryLabel = "strimzi.io/discovery"
)

// textTrue is how labels, annotations and properties say yes.
const textTrue = "true"

// Annotations of resources, set by users.
const (
	nextNodeIDsAnnotation        = "strimzi.io/next-node-ids"
	removeNodeIDsAnnotation      = "strimzi.io/remove-node-ids"
	skipScaleDownCheckAnnotation = "strimzi.io/skip-broker-scaledown-check"
)

const (
	kafkaKind      = "Kafka"
	kafkaComponent = "kafka"
	// managedBy stays the name that Strimzi's operator gives itself: selectors
	// of dashboards and network policies use it.
	managedBy = "strimzi-cluster-operator"
)

// commonLabels are on every object of the Kafka nodes. Of these, a user can
// only choose app.kubernetes.io/part-of: see inheritedLabels.
func (c Cluster) commonLabels() map[string]string {
	labels := map[string]string{
		"app.kubernetes.io/name":       kafkaComponent,
		"app.kubernetes.io/instance":   labelValue(c.Names.Cluster),
		"app.kubernetes.io/part-of":    labelValue("strimzi-" + c.Names.Cluster),
		"app.kubernetes.io/managed-by": managedBy,
		KindLabel:                      kafkaKind,
		ClusterLabel:                   c.Names.Cluster,
		NameLabel:                      c.Names.Kafka(),
		ComponentTypeLabel:             kafkaComponent,
	}
	maps.Copy(labels, c.labels)
	return labels
}

// poolLabels are on the objects of one pool.
func (c Cluster) poolLabels(pool Pool) map[string]string {
	labels := c.commonLabels()
	maps.Copy(labels, pool.labels)
	labels[PoolLabel] = pool.Name
	return labels
}

// podLabels are on the pod of one node.
func (c Cluster) podLabels(pool Pool, node Node) map[string]string {
	labels := c.poolLabels(pool)
	maps.Copy(labels, map[string]string{
		PodLabel:            node.Pod,
		ControllerLabel:     "strimzipodset",
		ControllerNameLabel: c.Names.PodSet(pool.Name),
		BrokerRoleLabel:     strconv.FormatBool(node.Roles.Broker),
		ControllerRoleLabel: strconv.FormatBool(node.Roles.Controller),
	})
	return labels
}

// SelectorLabels select all pods of the cluster's Kafka nodes.
func (c Cluster) SelectorLabels() map[string]string {
	return map[string]string{
		KindLabel:    kafkaKind,
		ClusterLabel: c.Names.Cluster,
		NameLabel:    c.Names.Kafka(),
	}
}

// poolSelector selects the pods of one pool.
func (c Cluster) poolSelector(pool string) map[string]string {
	labels := c.SelectorLabels()
	labels[PoolLabel] = pool
	return labels
}

// labelValue cuts a text so that it is a valid value of a label.
func labelValue(text string) string {
	if len(text) > maxLabel {
		text = text[:maxLabel]
	}
	return strings.TrimRight(text, ".-_")
}
