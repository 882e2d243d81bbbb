package model

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyac "k8s.io/client-go/applyconfigurations/policy/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

const (
	// namespaceNameLabel is on every namespace: Kubernetes puts it there and keeps it right.
	namespaceNameLabel = "kubernetes.io/metadata.name"
	// nameLabel is Manager on the operator's pods, and on no others of their namespace.
	nameLabel = "app.kubernetes.io/name"
)

// policyPeer stands for the long name of Kubernetes' own.
type policyPeer = networkingac.NetworkPolicyPeerApplyConfiguration

// Protection keeps evictions from taking the quorum of so many voters, and others from the ports of the members.
func (c Cluster) Protection(voters int) []Object {
	return []Object{
		{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), c.Names.Cluster, c.budget(voters)},
		{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), c.Names.Cluster, c.networkPolicy()},
	}
}

// budget counts the voters there are. A cluster of one or two that shall not have more tolerates no loss: there one
// eviction is allowed, or no node could ever be drained.
func (c Cluster) budget(voters int) *policyac.PodDisruptionBudgetApplyConfiguration {
	needed := voters/2 + 1
	if voters == 0 || voters <= 2 && c.Size <= 2 {
		needed = max(voters-1, 0)
	}
	selector := c.selector()
	selector[RoleLabel] = string(etcdv1beta2.RoleVoter)
	return policyac.PodDisruptionBudget(c.Names.Cluster, c.Names.Namespace).
		WithLabels(c.Labels()).WithOwnerReferences(c.owner()).
		WithSpec(policyac.PodDisruptionBudgetSpec().
			WithMinAvailable(intstr.FromInt(needed)).
			WithSelector(metaac.LabelSelector().WithMatchLabels(selector)))
}

// networkPolicy lets members reach each other, the operator reach all but the peer port, and clients and backups their port, and
// clients that of the metrics. The
// kubelet's probes are not named: Kubernetes lets a pod's own machine in, whatever policies say.
func (c Cluster) networkPolicy() *networkingac.NetworkPolicyApplyConfiguration {
	operator := podsWith(map[string]string{nameLabel: Manager})
	if c.settings.OperatorNamespace != c.Names.Namespace {
		operator.WithNamespaceSelector(metaac.LabelSelector().
			WithMatchLabels(map[string]string{namespaceNameLabel: c.settings.OperatorNamespace}))
	}
	clients := renderPeers(c.clientPeers)
	if len(clients) > 0 {
		clients = append(clients, operator, podsWith(backupSelector(c.Names.Cluster)))
	}
	return networkingac.NetworkPolicy(c.Names.Cluster, c.Names.Namespace).
		WithLabels(c.Labels()).WithOwnerReferences(c.owner()).
		WithSpec(networkingac.NetworkPolicySpec().
			WithPodSelector(metaac.LabelSelector().WithMatchLabels(c.selector())).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(
				ingress(contract.PeerPort, podsWith(c.selector())),
				ingress(agent.SecurePort, operator),
				ingress(contract.ClientPort, clients...),
				ingress(contract.ScrapePort, renderPeers(c.clientPeers)...),
			))
}

// podsWith are the pods of the policy's own namespace that have all the labels.
func podsWith(labels map[string]string) *policyPeer {
	return networkingac.NetworkPolicyPeer().WithPodSelector(metaac.LabelSelector().WithMatchLabels(labels))
}

// ingress opens a port to peers, and to everybody when there are none.
func ingress(port int32, peers ...*policyPeer) *networkingac.NetworkPolicyIngressRuleApplyConfiguration {
	return networkingac.NetworkPolicyIngressRule().
		WithPorts(networkingac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromInt32(port))).
		WithFrom(peers...)
}

func renderPeers(peers []networkingv1.NetworkPolicyPeer) []*policyPeer {
	rendered := make([]*policyPeer, 0, len(peers)+1)
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

// renderSelector keeps apart a selector that is empty, and selects everything, from one that is not there.
func renderSelector(selector *metav1.LabelSelector) *metaac.LabelSelectorApplyConfiguration {
	if selector == nil {
		return nil
	}
	rendered := metaac.LabelSelector().WithMatchLabels(selector.MatchLabels)
	for _, requirement := range selector.MatchExpressions {
		rendered.WithMatchExpressions(metaac.LabelSelectorRequirement().
			WithKey(requirement.Key).WithOperator(requirement.Operator).WithValues(requirement.Values...))
	}
	return rendered
}
