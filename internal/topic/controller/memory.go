package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory knows of each topic in which state of the world it was last brought up to date: an event that changes nothing of that costs
// no request.
type memory struct {
	mu     sync.Mutex
	topics map[types.NamespacedName]remembered
}

type remembered struct {
	version version
	outcome outcome
}

func newMemory() *memory {
	return &memory{topics: map[types.NamespacedName]remembered{}}
}

// of returns the last outcome, and whether it still stands at a time.
func (m *memory) of(topic types.NamespacedName, now version, at time.Time) (outcome, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.topics[topic]
	isDue := !last.outcome.wake.IsZero() && !at.Before(last.outcome.wake)
	return last.outcome, known && last.version == now && !isDue
}

// unnoticed is what the last reconcile of a topic has warned of that it would not notice.
func (m *memory) unnoticed(topic types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[topic].version.unnoticed
}

// doubted is since when a topic is otherwise than it is described, zero when it is not.
func (m *memory) doubted(topic types.NamespacedName) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[topic].outcome.doubted
}

// knows reports whether a topic has been brought up to date.
func (m *memory) knows(topic types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.topics[topic]
	return known
}

func (m *memory) remember(topic types.NamespacedName, v version, done outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topics[topic] = remembered{v, done}
}

func (m *memory) forget(topic types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, topic)
}
