package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Appliers are the Appliers of one field owner: one for each resource whose objects it
// writes, so that what is remembered of them goes when the resource goes.
type Appliers struct {
	writer client.Client
	owner  string

	mu sync.Mutex
	of map[types.UID]*Applier
}

// NewAppliers returns Appliers that write through writer as the field owner.
func NewAppliers(writer client.Client, owner string) *Appliers {
	return &Appliers{writer: writer, owner: owner, of: map[types.UID]*Applier{}}
}

// Of returns the Applier for the objects of a resource.
func (a *Appliers) Of(resource types.UID) *Applier {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[resource] == nil {
		a.of[resource] = NewApplier(a.writer, a.owner)
	}
	return a.of[resource]
}

// Forget drops what is remembered of the objects of a resource that is gone.
func (a *Appliers) Forget(resource types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, resource)
}

// Len is how many resources something is remembered of.
func (a *Appliers) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.of)
}
