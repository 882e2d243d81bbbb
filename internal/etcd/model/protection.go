package model

import (
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyac "k8s.io/client-go/applyconfigurations/policy/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube/networkpolicy"
)

// nameLabel is Manager on the operator's pods, and on no others of their namespace.
const nameLabel = "app.kubernetes.io/name"

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
	operator := networkpolicy.PodsIn(c.settings.OperatorNamespace, c.Names.Namespace, map[string]string{nameLabel: Manager})
	clients := networkpolicy.Peers(c.clientPeers)
	if len(clients) > 0 {
		clients = append(clients, operator, networkpolicy.PodsWith(backupSelector(c.Names.Cluster)))
	}
	return networkingac.NetworkPolicy(c.Names.Cluster, c.Names.Namespace).
		WithLabels(c.Labels()).WithOwnerReferences(c.owner()).
		WithSpec(networkingac.NetworkPolicySpec().
			WithPodSelector(metaac.LabelSelector().WithMatchLabels(c.selector())).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(
				networkpolicy.Ingress(contract.PeerPort, networkpolicy.PodsWith(c.selector())),
				networkpolicy.Ingress(agent.SecurePort, operator),
				networkpolicy.Ingress(contract.ClientPort, clients...),
				networkpolicy.Ingress(contract.ScrapePort, networkpolicy.Peers(c.clientPeers)...),
			))
}
