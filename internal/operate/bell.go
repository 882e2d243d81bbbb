package operate

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Bell has resources reconciled for a reason that no event of the API server tells of. Its zero value is ready.
type Bell struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Source takes the queue when the controller starts.
func (b *Bell) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.queue = queue
		return nil
	})
}

// Ring has a resource reconciled after a time. It does nothing before the controller starts, which reconciles all of them.
func (b *Bell) Ring(resource types.NamespacedName, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue != nil {
		b.queue.AddAfter(reconcile.Request{NamespacedName: resource}, after)
	}
}
