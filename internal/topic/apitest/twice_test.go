package apitest

import (
	"testing"
	"time"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// older waits until objects that are created from now on are younger: the API server counts seconds.
func (w *world) older() {
	w.t.Helper()
	created := w.read("older").CreationTimestamp
	w.until("a second has passed", func() bool { return time.Since(created.Time) > 1100*time.Millisecond })
}

func TestTheOlderOfTwoObjectsManagesATopic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second string
		left          string
	}{
		"the younger one is deleted first": {"a-younger", "older", "older"},
		"the older one is deleted first":   {"older", "a-younger", "a-younger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.topic("older", named("orders", sized(2, 1)))
			w.older()
			w.topic("a-younger", named("orders", sized(3, 1)))
			w.reconcile("a-younger", "older", "a-younger")
			id := w.holds("orders", 2, 1)
			w.reports("older", "")
			w.reports("a-younger", "ResourceConflict")
			if status := w.read("a-younger").Status; status.TopicID != "" {
				t.Errorf("the younger one has the id %s", status.TopicID)
			}
			w.atRest("older", "a-younger")

			w.deleteTopic(c.first)
			w.reconcile(c.first, c.left)
			if !w.isGone(c.first) {
				t.Fatalf("%s is not gone", c.first)
			}
			w.reports(c.left, "")
			if held, exists := w.kafka.Held("orders"); !exists || held.ID != id {
				t.Error("the topic was deleted while another object stands for it")
			}
			w.deleteTopic(c.second)
			w.reconcile(c.second)
			if !w.isGone(c.second) || len(w.kafka.Names()) != 0 {
				t.Errorf("Kafka has %v", w.kafka.Names())
			}
		})
	}
}

func TestAYoungerObjectTakesOverFromOneThatIsNotManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("older", named("orders", sized(2, 1)))
	w.older()
	w.topic("a-younger", named("orders", sized(3, 1)))
	w.reconcile("older", "a-younger")
	id := w.holds("orders", 2, 1)
	w.annotate("older", "strimzi.io/managed", "false")
	w.reconcile("older", "a-younger")
	w.reports("a-younger", "")
	if after := w.holds("orders", 3, 1); after != id {
		t.Error("the topic was created again")
	}
}

func TestADeletedObjectWhoseNameAnotherWaitsForTakesNothingAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("older", named("orders", sized(1, 1)))
	w.topic("other", named("payments", sized(1, 1)))
	w.reconcile("older", "other")
	w.change("other", func(t *kafkav1.KafkaTopic) { t.Spec.TopicName = "orders" })
	w.reconcile("other")
	w.reports("other", "NotSupported")
	w.deleteTopic("older")
	w.reconcile("older")
	if !w.isGone("older") || len(w.kafka.Names()) != 2 {
		t.Errorf("Kafka has %v", w.kafka.Names())
	}
}
