package apitest

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/model"
)

// selectors are those by which the objects of the cluster take pods of its namespace for members or backups.
func (w *world) selectors() map[string]map[string]string {
	w.t.Helper()
	selectors := map[string]map[string]string{}
	for _, name := range []string{"my-cluster-peer", "my-cluster-client"} {
		service := &corev1.Service{}
		w.get(name, service)
		selectors["Service "+name] = service.Spec.Selector
	}
	budget, policy := &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}
	w.get(cluster, budget)
	w.get(cluster, policy)
	selectors["PodDisruptionBudget"] = budget.Spec.Selector.MatchLabels
	selectors["NetworkPolicy"] = policy.Spec.PodSelector.MatchLabels
	for _, rule := range policy.Spec.Ingress {
		for _, peer := range rule.From {
			if peer.PodSelector != nil && peer.NamespaceSelector == nil { // the operator is in another namespace
				selectors["peers of port "+rule.Ports[0].Port.String()] = peer.PodSelector.MatchLabels
			}
		}
	}
	return selectors
}

func (w *world) get(name string, object client.Object) {
	w.t.Helper()
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, object); err != nil {
		w.t.Fatal(err)
	}
}

// A tenant may create pods of any name, labels, hostname and subdomain, but for what the policy forbids.
func TestWhatIsSelectedAsAMemberIsWhatThePolicyGuards(t *testing.T) {
	t.Parallel()
	spec := of(1)
	spec.ClientPeers = []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}} // so that backups are named, too
	w, g := newAttested(t, spec)
	w.bring()
	tenant, selectors := g.as("tenant"), w.selectors()
	if len(selectors) != 6 {
		t.Fatalf("the selectors are %v", selectors)
	}
	impostor := other(w.namespace, "impostor")
	impostor.Spec.Hostname, impostor.Spec.Subdomain = first, "my-cluster-peer"
	allowed := impostor.DeepCopy()
	allowed.Labels = maps.Clone(w.pod(first).Labels)
	delete(allowed.Labels, model.ManagedByLabel)
	delete(allowed.Labels, model.RoleLabel)
	if err := tenant.Create(t.Context(), allowed, client.DryRunAll); err != nil {
		t.Errorf("a pod of another operator: %v", err)
	}
	for name, selector := range selectors {
		selected := impostor.DeepCopy()
		selected.Labels = selector
		g.refusedByPolicy(name, "Only the etcd operator may create a pod", tenant.Create(t.Context(), selected, client.DryRunAll))
		if labels.SelectorFromSet(selector).Matches(labels.Set(allowed.Labels)) {
			t.Errorf("%s selects pods that the policy does not guard: %v", name, selector)
		}
		isOfBackups := selector[model.BackupOfLabel] != ""
		if labels.SelectorFromSet(selector).Matches(labels.Set(w.pod(first).Labels)) == isOfBackups {
			t.Errorf("%s: whether it selects members is wrong: %v", name, selector)
		}
	}
}

// Selectors of an earlier version are replaced, and members stay selected.
func TestTheSelectorsOfAnEarlierVersionAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	wanted := w.selectors()
	w.patch(&corev1.Service{ObjectMeta: w.meta("my-cluster-peer")}, merge(`{"spec": {"selector": {%q: null}}}`, model.ManagedByLabel))
	w.restart()
	w.reconcile()
	for name, selector := range w.selectors() {
		if !maps.Equal(selector, wanted[name]) {
			t.Errorf("%s selects %v, want %v", name, selector, wanted[name])
		}
		for _, pod := range w.pods() {
			if !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s does not select member %s", name, pod.Name)
			}
		}
	}
}
