package model_test

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func TestTheBudgetKeepsTheQuorum(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		size           int32
		voters, needed int
	}{
		{1, 0, 0}, {1, 1, 0}, {2, 1, 0}, {2, 2, 1}, {3, 0, 0}, {3, 1, 1}, {3, 2, 2}, {3, 3, 2}, {5, 5, 3}, {7, 7, 4}, {1, 3, 2}, {2, 3, 2}, {1, 2, 1},
	} {
		etcd := three(t)
		etcd.Spec.Size = test.size
		cluster, _ := model.Resolve(etcd, settings())
		budget, is := cluster.Protection(test.voters)[0].Intent.(*policyac.PodDisruptionBudgetApplyConfiguration)
		if !is || budget.Spec.MinAvailable.IntValue() != test.needed {
			t.Errorf("of %d voters of a cluster of size %d: %+v, want %d", test.voters, test.size, budget.Spec, test.needed)
		}
	}
}

func TestTheClientPortIsOpenUnlessPeersAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		peers []networkingv1.NetworkPolicyPeer
		from  int
		// scrape is how many peers may scrape.
		scrape int
	}{
		"everybody":                             {nil, 0, 0},
		"a namespace, the operator and backups": {[]networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}, 3, 1},
		"a range, the operator and backups":     {[]networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Spec.ClientPeers = test.peers
			cluster, _ := model.Resolve(etcd, settings())
			policy, is := cluster.Protection(3)[1].Intent.(*networkingac.NetworkPolicyApplyConfiguration)
			if !is {
				t.Fatal("there is no policy")
			}
			from := map[int]int{}
			for _, rule := range policy.Spec.Ingress {
				from[rule.Ports[0].Port.IntValue()] = len(rule.From)
			}
			want := map[int]int{contract.PeerPort: 1, contract.ClientPort: test.from, contract.ScrapePort: test.scrape, 8443: 1}
			for port, peers := range want {
				if got, opened := from[port]; !opened || got != peers || len(from) != len(want) {
					t.Errorf("port %d is open to %d peers, want %d", port, got, peers)
				}
			}
		})
	}
}
