package apitest

import (
	"errors"
	"testing"

	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// TestACrashBeforeAnyWriteLosesNothing lets the operator crash before each of its writes, and another one go on.
func TestACrashBeforeAnyWriteLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin func(*world)
		event func(*world)
		ends  func(*testing.T, *world)
	}{
		"when a topic is created": {
			begin: func(*world) {}, event: func(w *world) { w.topic("orders", sized(2, 1, "retention.ms", "1")) },
			ends: func(t *testing.T, w *world) {
				t.Helper()
				w.reports("orders", "")
				if id := w.holds("orders", 2, 1, "retention.ms", "1"); w.read("orders").Status.TopicID != id.String() {
					t.Error("the status does not have the id")
				}
			},
		},
		"when a topic is changed": {
			begin: func(w *world) { w.topic("orders", sized(2, 1)) }, event: func(w *world) { w.respecify("orders", sized(3, 1, "retention.ms", "1")) },
			ends: func(t *testing.T, w *world) {
				t.Helper()
				w.reports("orders", "")
				w.holds("orders", 3, 1, "retention.ms", "1")
			},
		},
		"when a topic has vanished": {
			begin: func(w *world) { w.topic("orders", sized(2, 1)) }, event: func(w *world) { w.kafka.Remove("orders") },
			ends: func(t *testing.T, w *world) {
				t.Helper()
				w.holds("orders", 2, 1)
				if !w.has("orders", "Warning", "TopicRecreated") {
					t.Error("nothing tells that records are lost")
				}
			},
		},
		"when a topic is deleted": {
			begin: func(w *world) { w.topic("orders", sized(2, 1)) }, event: func(w *world) { w.deleteTopic("orders") },
			ends: func(t *testing.T, w *world) {
				t.Helper()
				if !w.isGone("orders") || len(w.kafka.Names()) > 0 {
					t.Errorf("Kafka has %v", w.kafka.Names())
				}
			},
		},
		"when a topic is no longer managed": {
			begin: func(w *world) { w.topic("orders", sized(2, 1)) }, event: func(w *world) { w.annotate("orders", "strimzi.io/managed", "false") },
			ends: func(t *testing.T, w *world) {
				t.Helper()
				w.holds("orders", 2, 1)
				if topic := w.read("orders"); len(topic.Finalizers) > 0 || !w.has("orders", "Unmanaged", "Unmanaged") {
					t.Errorf("finalizers are %v, status is %+v", topic.Finalizers, topic.Status)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hasCrashed := 0
			for crashAt := 1; ; crashAt++ {
				w := newWorld(t)
				c.begin(w)
				w.reconcile("orders")
				w.restart()
				c.event(w)
				w.writer.CrashAt = crashAt
				_, err := w.try("orders")
				if err == nil {
					break
				}
				if !errors.Is(err, kubetest.ErrCrash) {
					t.Fatal(err)
				}
				hasCrashed++
				w.restart()
				w.reconcile("orders")
				w.later("orders")
				c.ends(t, w)
				if !w.isGone("orders") {
					w.atRest("orders")
				}
			}
			if hasCrashed < 2 {
				t.Errorf("the operator has crashed %d times", hasCrashed)
			}
		})
	}
}
