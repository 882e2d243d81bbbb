// Package networkpolicy renders rules of NetworkPolicies.
//
// Which ports are open, and for which pods, is decided by its callers: the package must not know any kind of server.
package networkpolicy

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
)

// Peer is a set of pods or addresses, as it is applied.
type Peer = networkingac.NetworkPolicyPeerApplyConfiguration

// Rule is a port and the peers that may connect to it, as it is applied.
type Rule = networkingac.NetworkPolicyIngressRuleApplyConfiguration

// PodsWith are the pods of the policy's own namespace that have all the labels.
func PodsWith(labels map[string]string) *Peer {
	return networkingac.NetworkPolicyPeer().WithPodSelector(metaac.LabelSelector().WithMatchLabels(labels))
}

// PodsIn are the pods of a namespace that have all the labels, for a policy in namespace own.
func PodsIn(namespace, own string, labels map[string]string) *Peer {
	peer := PodsWith(labels)
	if namespace != own {
		peer.WithNamespaceSelector(metaac.LabelSelector().WithMatchLabels(map[string]string{corev1.LabelMetadataName: namespace}))
	}
	return peer
}

// Ingress opens a TCP port to peers, and to all addresses when there are none.
func Ingress(port int32, peers ...*Peer) *Rule {
	return networkingac.NetworkPolicyIngressRule().
		WithPorts(networkingac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(port))).
		WithFrom(peers...)
}

// Peers are peers as a policy applies them.
func Peers(peers []networkingv1.NetworkPolicyPeer) []*Peer {
	applied := make([]*Peer, 0, len(peers))
	for i := range peers {
		peer := &Peer{PodSelector: selector(peers[i].PodSelector), NamespaceSelector: selector(peers[i].NamespaceSelector)}
		if block := peers[i].IPBlock; block != nil {
			peer.WithIPBlock(networkingac.IPBlock().WithCIDR(block.CIDR).WithExcept(block.Except...))
		}
		applied = append(applied, peer)
	}
	return applied
}

// selector keeps an empty selector, which selects everything, apart from a missing one.
func selector(selector *metav1.LabelSelector) *metaac.LabelSelectorApplyConfiguration {
	if selector == nil {
		return nil
	}
	applied := metaac.LabelSelector().WithMatchLabels(selector.MatchLabels)
	for _, requirement := range selector.MatchExpressions {
		applied.WithMatchExpressions(metaac.LabelSelectorRequirement().
			WithKey(requirement.Key).WithOperator(requirement.Operator).WithValues(requirement.Values...))
	}
	return applied
}
