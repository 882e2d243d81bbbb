package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// What the operator remembers of a Kafka saves it questions and writes, and what it has
// told is not told twice. Nothing is decided from it, and all of it goes with the Kafka.

// clusters remembers which Kafka has a name: a reconcile learns of the end of one by its name
// alone, and another one of the name has another UID.
type clusters struct {
	mu  sync.Mutex
	uid map[types.NamespacedName]types.UID
}

func newClusters() *clusters { return &clusters{uid: map[types.NamespacedName]types.UID{}} }

// now notes which Kafka has the name, none if that is empty, and returns the one before
// it; empty if there was none, or it is the same.
func (c *clusters) now(name types.NamespacedName, kafka types.UID) (before types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.uid[name]
	if before == kafka {
		return ""
	}
	if kafka == "" {
		delete(c.uid, name)
	} else {
		c.uid[name] = kafka
	}
	return before
}

// meet notes the Kafka that a reconcile is about, and forgets the one that had its name.
func (r *Reconciler) meet(name types.NamespacedName, kafka types.UID) {
	if before := r.clusters.now(name, kafka); before != "" {
		r.forget(before)
	}
}

// leave forgets the Kafka of the name.
func (r *Reconciler) leave(name types.NamespacedName) {
	r.metrics.forget(name)
	r.agents.Forget(name)
	r.surveys.Forget(name)
	r.named.Refer(name, nil)
	if r.options.Outside != nil {
		r.options.Outside.Forget(name)
	}
	if before := r.clusters.now(name, ""); before != "" {
		r.forget(before)
	}
}

func (r *Reconciler) forget(kafka types.UID) {
	r.appliers.Forget(kafka)
	r.followers.Forget(kafka)
	r.records.Forget(kafka)
	r.settled.forget(kafka)
	r.races.forget(kafka)
	r.steps.forget(kafka)
}

// Remembered is how many things the operator remembers of all Kafkas: what there is of
// one is bounded by its nodes and objects, and none when it is gone.
func (r *Reconciler) Remembered() int {
	return counted(&r.clusters.mu, r.clusters.uid) + counted(&r.metrics.mu, r.metrics.clusters) + counted(&r.metrics.mu, r.metrics.readies) +
		r.agents.Len() + r.surveys.Len() + r.records.Len() +
		counted(&r.settled.mu, r.settled.versions) + counted(&r.races.mu, r.races.inRow) +
		counted(&r.steps.mu, r.steps.taken) + r.appliers.Len() + r.followers.Len() + r.named.Len()
}

func counted[K comparable, V any](mu *sync.Mutex, remembered map[K]V) int {
	mu.Lock()
	defer mu.Unlock()
	return len(remembered)
}
