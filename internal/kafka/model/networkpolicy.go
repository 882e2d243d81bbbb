package model

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kube/networkpolicy"
)

// NetworkPolicies says how network policies let the operator in.
type NetworkPolicies struct {
	// OperatorNamespace is the namespace of the operator's pods.
	OperatorNamespace string
	// OperatorLabels are on every pod of the operator, and on no other pod of its
	// namespace.
	OperatorLabels map[string]string
}

// NetworkPolicy allows only the connections to the nodes' pods that the cluster needs; false when
// the operator creates no policies. It does not name the kubelet's probes: Kubernetes always
// allows connections from a pod's own machine.
func (c Cluster) NetworkPolicy() (*networkingac.NetworkPolicyApplyConfiguration, bool) {
	policies := c.settings.NetworkPolicies
	if policies == nil {
		return nil, false
	}
	nodes, operator := networkpolicy.PodsWith(c.SelectorLabels()), policies.operator(c.Names.Namespace)
	rules := []*networkpolicy.Rule{
		networkpolicy.Ingress(ControlPlanePort, nodes, operator),
		networkpolicy.Ingress(ReplicationPort, slices.Concat([]*networkpolicy.Peer{nodes, operator}, policies.ofOneCluster(c.Names), c.accompanying())...),
		networkpolicy.Ingress(agent.SecurePort, operator),
	}
	for _, listener := range c.Listeners {
		rules = append(rules, networkpolicy.Ingress(listener.Port, networkpolicy.Peers(listener.peers)...))
	}
	return networkingac.NetworkPolicy(c.Names.NetworkPolicy(), c.Names.Namespace).
		WithLabels(c.commonLabels()).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(networkingac.NetworkPolicySpec().
			WithPodSelector(metaac.LabelSelector().WithMatchLabels(c.SelectorLabels())).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(rules...)), true
}

// operator are the operator's pods, as seen from a namespace.
func (p *NetworkPolicies) operator(namespace string) *networkpolicy.Peer {
	return networkpolicy.PodsIn(p.OperatorNamespace, namespace, p.OperatorLabels)
}

// ofOneCluster are the pods of the operators of one cluster, which the chart puts beside the operator.
func (p *NetworkPolicies) ofOneCluster(names Names) []*networkpolicy.Peer {
	operators := []string{"keyturn-user-operator", "keyturn-topic-operator"}
	peers := make([]*networkpolicy.Peer, 0, len(operators))
	for _, name := range operators {
		labels := map[string]string{"app.kubernetes.io/name": name, ClusterLabel: names.Cluster}
		peers = append(peers, networkpolicy.PodsIn(p.OperatorNamespace, names.Namespace, labels))
	}
	return peers
}

// accompanying are the pods that work beside the nodes of a cluster and talk to
// brokers as brokers do, by the names that Strimzi gives them.
func (c Cluster) accompanying() []*networkpolicy.Peer {
	components := []string{"-entity-operator", "-kafka-exporter", "-cruise-control"}
	peers := make([]*networkpolicy.Peer, 0, len(components))
	for _, component := range components {
		peers = append(peers, networkpolicy.PodsWith(map[string]string{NameLabel: c.Names.Cluster + component}))
	}
	return peers
}
