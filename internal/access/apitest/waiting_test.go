package apitest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/pki"
)

// Thousands of KafkaAccesses can wait for what does not exist yet. None of them costs a watch of its own: only what they
// refer to does, once for all of them.
func TestKafkaAccessesThatWaitCostNoWatchEach(t *testing.T) {
	t.Parallel()
	const waiting = 20
	w := newWorld(t)
	w.runOperator()
	w.kafka("my-cluster")
	for i := range waiting {
		w.create(accessOf(fmt.Sprintf("none-%d", i), "", func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "none" }))
		w.create(accessOf(fmt.Sprintf("app-%d", i), "", func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Listener = "custom" }))
	}
	w.access("", func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Listener = "custom" })
	for i := range waiting {
		for _, name := range []string{"none", "app"} {
			w.await("it waits", func() bool { return w.reason(fmt.Sprintf("%s-%d", name, i)) == "MissingKubernetesResource" })
		}
	}
	w.traffic.mu.Lock()
	watched := slices.Sorted(maps.Keys(w.traffic.watched))
	w.traffic.mu.Unlock()
	if want := []string{"metadata.name=chain"}; !slices.Equal(watched, want) {
		t.Errorf("Secrets that are watched by their names: %v, want %v", watched, want)
	}
	_, chain := chainOf(t, "root")
	w.secret("chain", "", map[string]string{"crt": string(pki.EncodeBundle(chain...)), "key": "private"})
	for i := range waiting {
		w.await("it is bound", func() bool { return w.reason(fmt.Sprintf("app-%d", i)) == "Bound" })
	}
}
