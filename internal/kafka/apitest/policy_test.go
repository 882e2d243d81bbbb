package apitest

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// Each cluster has a network policy, unless they are switched off.

const policyName = clusterName + "-network-policy-kafka"

func (w *world) policy() *networkingv1.NetworkPolicy {
	w.t.Helper()
	policy := &networkingv1.NetworkPolicy{}
	w.get(policyName, policy)
	return policy
}

// policies are those of the namespace.
func (w *world) policies() []networkingv1.NetworkPolicy {
	w.t.Helper()
	list := &networkingv1.NetworkPolicyList{}
	w.list(list)
	return list.Items
}

func TestTheAPIServerTakesThePolicyOfAClusterWithPeersOfEveryKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kafka, pool := w.onClaims()
	kafka.Spec.Kafka.Listeners[0].NetworkPolicyPeers = []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{}},
		{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "In", Values: []string{"front"}}}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.1.0.0/16", Except: []string{"10.1.2.0/24"}}},
	}
	w.create(kafka, pool)
	w.settle()

	w.wantReady()
	port := kafka.Spec.Kafka.Listeners[0].Port
	for _, rule := range w.policy().Spec.Ingress {
		if rule.Ports[0].Port.IntVal == port {
			if len(rule.From) != 3 || rule.From[0].PodSelector == nil {
				t.Errorf("the listener lets in %+v", rule.From)
			}
			return
		}
	}
	t.Errorf("no rule is about port %d", port)
}

func TestAPolicyThatSomebodyEditsIsPutBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	want := w.policy().Spec.Ingress

	w.patch(&networkingv1.NetworkPolicy{}, policyName, map[string]any{"spec": map[string]any{"ingress": nil}})
	w.settle()

	if got := w.policy().Spec.Ingress; len(got) != len(want) {
		t.Errorf("it has %d rules, want %d", len(got), len(want))
	}
}

func TestAPolicyIsDeletedWhenPoliciesAreSwitchedOffAndNobodyRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before, policies := w.policy(), w.settings.NetworkPolicies

	w.settings.NetworkPolicies = nil
	w.startOperator()
	w.settle()
	if left := w.policies(); len(left) > 0 {
		t.Errorf("policy %s is left", left[0].Name)
	}

	w.settings.NetworkPolicies = policies
	w.startOperator()
	w.settle()
	if now := w.policy(); now.UID == before.UID || len(w.faulty.podsDeleted) > 0 {
		t.Errorf("it is the one from before, or pods were restarted: %v", w.faulty.podsDeleted)
	}
}

func TestPeersOfWhichNoPolicyCanBeMadeChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.policy().ResourceVersion

	w.patchKafka(map[string]any{"listeners": []any{map[string]any{
		"name": "tls", "port": 9093, "type": "internal", "tls": true,
		"networkPolicyPeers": []any{map[string]any{"ipBlock": map[string]any{"cidr": "everywhere"}}},
	}}})
	w.run(3)

	w.wantCondition(condition.NotReady, "everywhere", "listener tls")
	if now := w.policy().ResourceVersion; now != before {
		t.Error("the policy was written")
	}
}
