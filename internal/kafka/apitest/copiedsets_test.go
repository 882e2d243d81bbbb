package apitest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Pod sets that bear every trace of the operator but its field manager: somebody has
// copied one, or has made the API server forget who wrote it.

// copiedSet is a copy of the pod set of three nodes, of which the first has the id.
func (w *world) copiedSet(first int, owners ...metav1.OwnerReference) *podsetv1.StrimziPodSet {
	w.t.Helper()
	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	pairs := []string{"[0,1,2]", fmt.Sprintf("[%d,%d,%d]", first, first+1, first+2)}
	for i := range 3 {
		pairs = append(pairs, fmt.Sprintf("my-dual-%d", i), fmt.Sprintf("my-made-%d", first+i))
	}
	renamed := strings.NewReplacer(append(pairs, "my-dual", "my-made", `"dual"`, `"made"`)...)
	copied := &podsetv1.StrimziPodSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "my-made", Namespace: w.namespace, Labels: set.Labels, Annotations: set.Annotations, OwnerReferences: owners,
		},
		Spec: podsetv1.StrimziPodSetSpec{Selector: set.Spec.Selector},
	}
	for key, value := range copied.Annotations {
		copied.Annotations[key] = renamed.Replace(value)
	}
	for _, pod := range set.Spec.Pods {
		copied.Spec.Pods = append(copied.Spec.Pods, runtime.RawExtension{Raw: []byte(renamed.Replace(string(pod.Raw)))})
	}
	return copied
}

func TestNodesOfACopiedPodSetAreNotTheClusters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first int
		owned bool
	}{
		"that nobody owns":                     {first: 3},
		"that the Kafka owns":                  {first: 3, owned: true},
		"with the ids of nodes of the cluster": {first: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			var config corev1.ConfigMap
			w.get("my-dual-0", &config)
			set := w.copiedSet(c.first)
			if c.owned {
				set = w.copiedSet(c.first, w.strimziPodSet(w.getKafka()).OwnerReferences...)
			}
			w.create(set)

			w.run(5)
			w.wantReady()
			w.wantCondition(condition.Warning, "StrimziPodSet my-made", "Keyturn did not create it")
			w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))
			w.settle()
			w.replace(authorities.Cluster)
			w.settle()

			w.wantReady()
			if pods := slices.Sorted(maps.Keys(w.podUIDs())); !slices.Equal(pods, []string{"my-dual-0", "my-dual-1", "my-dual-2", "my-extra-3"}) {
				t.Errorf("pods are %v", pods)
			}
			if !w.untouched(set) || !w.untouched(&config) {
				t.Errorf("the set was written by %v, the configuration of a node is\n%v", set.ManagedFields, config.Data)
			}
			if !w.missing(&corev1.Secret{}, fmt.Sprintf("my-made-%d", c.first)) {
				t.Error("a node that somebody has made up is given a certificate")
			}
		})
	}
}

func TestACopiedPodSetThatWaitsForItsPoolIsForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	set := w.copiedSet(3)
	w.create(set, poolResource(w.namespace, "made", 1, kafkav1.RoleBroker))

	w.run(6)

	w.wantToldOnce("StrimziPodSet my-made")
	if !w.untouched(set) || len(w.podUIDs()) != 3 {
		t.Errorf("untouched: %t, pods %v", w.untouched(set), w.podUIDs())
	}
}

// forgetWriters makes the API server forget who has written a set.
func (w *world) forgetWriters(name string) {
	w.t.Helper()
	var set podsetv1.StrimziPodSet
	w.patch(&set, name, map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
	if len(set.ManagedFields) > 0 {
		w.t.Fatalf("it still says %v", set.ManagedFields)
	}
}

func TestNodesThatRunAreTheClustersWhenNobodyKnowsWhoWroteTheirPodSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world)
		gone   []string
	}{
		"of a pool": {change: func(*world) {}},
		"of a pool whose resource is gone": {
			change: func(w *world) { w.delete(&kafkav1.KafkaNodePool{}, "extra") }, gone: []string{"my-extra-3", "my-extra-4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.extraBrokers(claims(true))
			w.topic("orders", 0, 1, 4)
			w.pin()
			c.change(w)
			w.run(3)
			w.forgetWriters("my-dual")
			w.forgetWriters("my-extra")

			w.run(5)
			if pods := w.podUIDs(); len(pods) < 4 {
				t.Fatalf("pods are %v while a partition is on one of them", pods)
			}
			w.replace(authorities.Cluster)
			w.kafka.Reassign("orders", 0, 0, 1, 2)
			w.settle()

			w.wantReady()
			if !slices.Equal(w.faulty.podsDeleted, c.gone) {
				t.Errorf("deleted: %v, want %v", w.faulty.podsDeleted, c.gone)
			}
		})
	}
}
