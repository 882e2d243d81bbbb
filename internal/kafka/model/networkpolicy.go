package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/keyturn/keyturn/internal/agent"
)

// NetworkPolicies says how network policies let the operator in.
type NetworkPolicies struct {
	// OperatorNamespace is the namespace of the operator's pods.
	OperatorNamespace string
	// OperatorLabels are on every pod of the operator, and on no other pod of its
	// namespace.
	OperatorLabels map[string]string
}

// namespaceNameLabel is on every namespace: Kubernetes puts it there and keeps it
// right.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// policyPeer and policyRule stand for the long names of Kubernetes' own.
type (
	policyPeer = networkingac.NetworkPolicyPeerApplyConfiguration
	policyRule = networkingac.NetworkPolicyIngressRuleApplyConfiguration
)

// NetworkPolicy lets those into the nodes' pods who have business there, and nobody
// else; false when the operator makes no policies. The kubelet's probes are not named:
// Kubernetes lets a pod's own machine in, whatever policies say.
func (c Cluster) NetworkPolicy() (*networkingac.NetworkPolicyApplyConfiguration, bool) {
	policies := c.settings.NetworkPolicies
	if policies == nil {
		return nil, false
	}
	nodes, operator := podsWith(c.SelectorLabels()), policies.operator(c.Names.Namespace)
	rules := []*policyRule{
		ingress(ControlPlanePort, nodes, operator),
		ingress(ReplicationPort, slices.Concat([]*policyPeer{nodes, operator}, policies.ofOneCluster(c.Names), c.accompanying())...),
		ingress(agent.SecurePort, operator),
	}
	for _, listener := range c.Listeners {
		rules = append(rules, ingress(listener.Port, renderPeers(listener.peers)...))
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
func (p *NetworkPolicies) operator(namespace string) *policyPeer {
	return p.inOperatorNamespace(podsWith(p.OperatorLabels), namespace)
}

// ofOneCluster are the pods of the operators of one cluster, which the chart puts beside the operator.
func (p *NetworkPolicies) ofOneCluster(names Names) []*policyPeer {
	operators := []string{"keyturn-user-operator", "keyturn-topic-operator"}
	peers := make([]*policyPeer, 0, len(operators))
	for _, name := range operators {
		labels := map[string]string{"app.kubernetes.io/name": name, ClusterLabel: names.Cluster}
		peers = append(peers, p.inOperatorNamespace(podsWith(labels), names.Namespace))
	}
	return peers
}

func (p *NetworkPolicies) inOperatorNamespace(peer *policyPeer, namespace string) *policyPeer {
	if p.OperatorNamespace != namespace {
		peer.WithNamespaceSelector(metaac.LabelSelector().
			WithMatchLabels(map[string]string{namespaceNameLabel: p.OperatorNamespace}))
	}
	return peer
}

// accompanying are the pods that work beside the nodes of a cluster and talk to
// brokers as brokers do, by the names that Strimzi gives them.
func (c Cluster) accompanying() []*policyPeer {
	components := []string{"-entity-operator", "-kafka-exporter", "-cruise-control"}
	peers := make([]*policyPeer, 0, len(components))
	for _, component := range components {
		peers = append(peers, podsWith(map[string]string{NameLabel: c.Names.Cluster + component}))
	}
	return peers
}

// podsWith are the pods of the policy's own namespace that have all the labels.
func podsWith(labels map[string]string) *policyPeer {
	return networkingac.NetworkPolicyPeer().WithPodSelector(metaac.LabelSelector().WithMatchLabels(labels))
}

// ingress opens a port to peers, and to everybody when there are none.
func ingress(port int32, peers ...*policyPeer) *policyRule {
	return networkingac.NetworkPolicyIngressRule().
		WithPorts(networkingac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(port))).
		WithFrom(peers...)
}

func renderPeers(peers []networkingv1.NetworkPolicyPeer) []*policyPeer {
	rendered := make([]*policyPeer, 0, len(peers))
	for i := range peers {
		peer := &policyPeer{
			PodSelector:       renderSelector(peers[i].PodSelector),
			NamespaceSelector: renderSelector(peers[i].NamespaceSelector),
		}
		if block := peers[i].IPBlock; block != nil {
			peer.WithIPBlock(networkingac.IPBlock().WithCIDR(block.CIDR).WithExcept(block.Except...))
		}
		rendered = append(rendered, peer)
	}
	return rendered
}

// renderSelector keeps apart a selector that is empty, and selects everything, from one
// that is not there.
func renderSelector(selector *metav1.LabelSelector) *metaac.LabelSelectorApplyConfiguration {
	if selector == nil {
		return nil
	}
	rendered := metaac.LabelSelector().WithMatchLabels(selector.MatchLabels)
	for _, requirement := range selector.MatchExpressions {
		rendered.WithMatchExpressions(metaac.LabelSelectorRequirement().
			WithKey(requirement.Key).
			WithOperator(requirement.Operator).
			WithValues(requirement.Values...))
	}
	return rendered
}
