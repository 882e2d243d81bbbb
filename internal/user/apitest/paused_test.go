package apitest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// pause sets the annotation by which people pause a user to a value in JSON.
func (w *world) pause(name, value string) {
	w.t.Helper()
	w.patch(&kafkav1.KafkaUser{ObjectMeta: w.meta(name)}, `{"metadata": {"annotations": {"strimzi.io/pause-reconciliation": `+value+`}}}`)
}

// isPaused fails the test unless the status of a user says that it is paused, and nothing else.
func (w *world) isPaused(name string) {
	w.t.Helper()
	conditions := w.status(name).Conditions
	if len(conditions) != 1 || conditions[0].Type != condition.ReconciliationPaused || conditions[0].Reason != "ReconciliationPaused" || conditions[0].Status != condition.True {
		w.t.Errorf("the conditions are %+v", conditions)
	}
}

func TestAPausedUserIsLeftAsItIsAndContinuesAfterwards(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"in one process": false, "across a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", reads(scram()))
			w.reconcile("alice")
			before := w.stored("alice")
			w.pause("alice", `"True"`)
			w.change("alice", tls())
			again := func() {
				if restarts {
					w.restart()
				}
				w.reconcile("alice")
			}
			again()
			w.isPaused("alice")
			if status := w.status("alice"); status.ObservedGeneration != w.read("alice").Generation || status.Secret != "alice" || status.Username != "alice" {
				t.Errorf("the status is %+v", status)
			}
			w.clock.SetTime(w.clock.Now().Add(400 * 24 * time.Hour))
			w.newCA("clients-ca v1")
			again()
			if diff := cmp.Diff(before, w.stored("alice")); diff != "" {
				t.Errorf("the Secret was changed (-want +got):\n%s", diff)
			}
			w.holds("alice", withPassword(readsInKafka()), principal.Held{})
			w.quiet("alice")
			w.pause("alice", "null")
			again()
			w.ready("alice")
			w.leaf("alice")
			w.holds("alice", principal.Held{}, principal.Held{})
		})
	}
}

func TestAPausedUserCountsAsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.user("bob", tls())
	w.reconcile("alice")
	w.reconcile("bob")
	w.pause("alice", `"true"`)
	w.reconcile("alice")
	w.oversee()
	if users := w.progress(); users == nil || users.Total != 2 || users.Ready != 1 {
		t.Errorf("the status of the Kafka has %+v, want one of two users ready", users)
	}
}

func TestADeletedUserIsRemovedFromKafkaAlsoWhilePaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.pause("alice", `"true"`)
	w.reconcile("alice")
	w.deleteUser("alice")
	w.reconcile("alice")
	if !w.isGone("alice") || len(w.kafka.Names()) > 0 {
		t.Errorf("the user is gone: %t, and Kafka holds something for %v", w.isGone("alice"), w.kafka.Names())
	}
}

func TestAUserWithAnotherPauseIsNotPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.pause("alice", `"false"`)
	w.reconcile("alice")
	w.ready("alice")
}
