package controller

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/trust"
)

// memory is what the operator remembers of a Kafka. It saves questions and writes, and what was told is not told twice.
// Nothing is decided from it, and all of it goes with the Kafka. One reconcile at a time works with it.
type memory struct {
	uid types.UID
	// noDisruption is the version of the record of disruptions that is known to record none.
	noDisruption string
	// recorded is the version of the record of trust, as it was when that was written last.
	recorded string
	// lostRaces counts the reconciles in a row that lost a race.
	lostRaces int
	// steps are those of each CA that the last reconcile took.
	steps map[authorities.Kind][]trust.Step
}

// begun are the steps of a CA that the previous reconcile did not take.
func (m *memory) begun(kind authorities.Kind, taken []trust.Step) []trust.Step {
	before := m.steps[kind]
	if m.steps == nil {
		m.steps = map[authorities.Kind][]trust.Step{}
	}
	m.steps[kind] = taken
	return slices.DeleteFunc(slices.Clone(taken), func(step trust.Step) bool {
		return slices.ContainsFunc(before, func(old trust.Step) bool {
			return old.Kind == step.Kind && old.Anchor == step.Anchor && old.State == step.State && old.Bundle == step.Bundle
		})
	})
}

// memories are those of Kafkas by name: a reconcile learns of the end of one by its name alone.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

func newMemories() *memories { return &memories{of: map[types.NamespacedName]*memory{}} }

// meet is what is remembered of the Kafka that a reconcile is about. It forgets another one that had its name.
func (r *Reconciler) meet(name types.NamespacedName, kafka types.UID) *memory {
	r.memories.mu.Lock()
	defer r.memories.mu.Unlock()
	known := r.memories.of[name]
	if known != nil && known.uid == kafka {
		return known
	}
	r.forget(known)
	known = &memory{uid: kafka}
	r.memories.of[name] = known
	return known
}

// leave forgets the Kafka of the name.
func (r *Reconciler) leave(name types.NamespacedName) {
	r.metrics.Forget(name)
	r.agents.Forget(name)
	r.surveys.Forget(name)
	r.named.Refer(name, nil)
	if r.options.Outside != nil {
		r.options.Outside.Forget(name)
	}
	r.memories.mu.Lock()
	defer r.memories.mu.Unlock()
	r.forget(r.memories.of[name])
	delete(r.memories.of, name)
}

// forget drops what is kept of a Kafka by its UID.
func (r *Reconciler) forget(known *memory) {
	if known == nil {
		return
	}
	r.appliers.Forget(known.uid)
	r.followers.Forget(known.uid)
	r.records.Forget(known.uid)
}

// Remembered is how many things the operator remembers of all Kafkas: what there is of
// one is bounded by its nodes and objects, and none when it is gone.
func (r *Reconciler) Remembered() int {
	return r.memories.len() + r.metrics.Len() + r.agents.Len() + r.surveys.Len() + r.records.Len() + r.appliers.Len() + r.followers.Len() + r.named.Len()
}

func (m *memories) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
