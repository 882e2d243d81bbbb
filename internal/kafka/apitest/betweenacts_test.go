package apitest

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Between the look at the record of disruptions and the write of it everything else is
// read that a restart is decided from. Another operator may act in between, and people
// may change their minds.

// lateActor is what an operator reads while something else happens once it has looked at
// the record to decide from it, and at the pods and at Kafka after that.
type lateActor struct {
	client.Client

	looks   int
	happens func()
}

// looksToAct is at which look an operator decides whether to act. One that remembers nothing looks in each pass whether a node is
// being removed: in the first one it has not heard of agents, and in the second one it looks in vain, because servers were not asked.
const looksToAct = 5

// Get lets it happen at the first look at something else after that.
func (o *lateActor) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	switch {
	case name.Name == clusterName+"-disruption":
		o.looks++
	case o.looks == looksToAct && o.happens != nil:
		happens := o.happens
		o.happens = nil
		happens()
	}
	return o.Client.Get(ctx, name, into, opts...)
}

// actsLate lets a pass that is about to restart a node be overtaken, and checks how many
// pods are deleted by then.
func (w *world) actsLate(want int, happens func()) {
	w.t.Helper()
	w.kafka.Lead(0)
	before := len(w.faulty.podsDeleted)
	reads := &lateActor{Client: w.faulty, happens: happens}
	slow := w.newReconcilerBeside(w.faulty, reads)

	w.reconcileWhile(slow, func() bool { return reads.happens != nil })

	if reads.happens != nil {
		w.t.Fatal("nothing was about to be restarted")
	}
	if deleted := w.faulty.podsDeleted[before:]; len(deleted) != want {
		w.t.Errorf("pods %v are deleted, want %d", deleted, want)
	}
	w.settle()
	w.wantReady()
}

func TestOfTwoOperatorsThatDecidedToRestartOneDoes(t *testing.T) {
	t.Parallel()
	for name, restartedBefore := range map[string]bool{"the first restart": false, "a later restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			if restartedBefore {
				w.configure("log.retention.hours", "11")
				w.settle()
			}
			other := w.newReconciler(w.faulty)
			w.configure("log.retention.hours", "12")

			w.actsLate(1, func() {
				w.kafka.Lead(1) // it chooses another node
				w.reconcile(other)
			})
		})
	}
}

func TestNothingIsRestartedForWhatNobodyAsksForAnyMore(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(w *world){
		"the configuration is turned back":    func(w *world) { w.configure("log.retention.hours", "11") },
		"another change is asked of a Secret": func(w *world) { w.renew(authorities.Cluster) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.configure("log.retention.hours", "11")
			w.settle()
			w.configure("log.retention.hours", "12")

			w.actsLate(0, func() { happens(w) })
		})
	}
}
