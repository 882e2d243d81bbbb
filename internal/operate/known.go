package operate

import (
	"maps"
	"sync"
)

// Known is what a process remembers of resources while they exist, by their names or what else tells them apart. Its zero value is
// empty. It may be used concurrently.
type Known[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Of returns what is remembered of a resource, and whether anything is.
func (k *Known[K, V]) Of(resource K) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, isKnown := k.of[resource]
	return value, isKnown
}

// Put remembers something else of a resource, and returns what was remembered before, if anything was.
func (k *Known[K, V]) Put(resource K, value V) (V, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[K]V{}
	}
	before, isKnown := k.of[resource]
	k.of[resource] = value
	return before, isKnown
}

// Forget drops what is remembered of a resource that is gone.
func (k *Known[K, V]) Forget(resource K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, resource)
}

// All is what is remembered of all resources.
func (k *Known[K, V]) All() map[K]V {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.of)
}

// Len is of how many resources something is remembered.
func (k *Known[K, V]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of)
}
