package apitest

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Somebody takes a node out of its pod set just after its pod has been made again, and the cache
// still shows the pod before. The node runs and is waited for: nobody goes past it.
func TestANodeThatRunsIsWaitedForAlthoughItsSetNamesItNoMore(t *testing.T) {
	t.Parallel()
	for _, passes := range []int{1, 3, 6} {
		t.Run(fmt.Sprintf("for %d passes of an operator with an old picture", passes), func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.silent["my-dual-2"] = true
			w.replace(authorities.Cluster)
			w.run(12)
			lagging := newLaggingClient(w.faulty)
			other := w.newReconciler(lagging)
			w.reconcile(other)
			w.makeAgain("my-dual-2")
			w.takeOutOfItsSet("my-dual-2")

			for range passes {
				lagging.refreshAllButPods()
				w.reconcile(other)
				w.runKubelet(t.Context())
			}

			if w.presents(1, nextV)() {
				t.Error("a certificate that the silent node may not accept is presented")
			}
			w.run(12)
		})
	}
}

func TestWhoIsWaitedForIsNotWaitedForSinceThePodBeforeIt(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.silent["my-dual-1"] = true
	w.replace(authorities.Cluster)
	w.run(12)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.run(2)
	w.wantReason("ClusterCATrust", "Blocked")

	w.makeAgain("my-dual-1")
	w.run(1)

	w.wantReason("ClusterCATrust", "WaitingForTrust")
}

// refreshAllButPods forgets what was read of everything but the list of pods.
func (c *laggingClient) refreshAllButPods() {
	clear(c.objects)
	maps.DeleteFunc(c.lists, func(key string, _ client.ObjectList) bool { return !strings.HasPrefix(key, "*v1.PodList ") })
}

// makeAgain deletes a pod, and has it made and started again.
func (w *world) makeAgain(pod string) {
	w.t.Helper()
	w.delete(&corev1.Pod{}, pod)
	w.runKubelet(w.t.Context())
	if err := w.keepPods(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.runKubelet(w.t.Context())
	w.runKubelet(w.t.Context())
}

// takeOutOfItsSet is what somebody does by hand to a pod set.
func (w *world) takeOutOfItsSet(pod string) {
	w.t.Helper()
	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	var kept []any
	for _, raw := range set.Spec.Pods {
		if !strings.Contains(string(raw.Raw), fmt.Sprintf("%q:%q", "name", pod)) {
			kept = append(kept, raw)
		}
	}
	if len(kept) != len(set.Spec.Pods)-1 {
		w.t.Fatalf("%d of %d pods are left", len(kept), len(set.Spec.Pods))
	}
	w.patch(&podsetv1.StrimziPodSet{}, "my-dual", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"keyturn.dev/nodes": nil}}, "spec": map[string]any{"pods": kept},
	})
}
