package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keyturn/keyturn/internal/kube/watches"
)

// cacheTime is how long a cache is waited for that is not filled, as when its watch is denied.
const cacheTime = 5 * time.Second

// tolerant is a manager in whose cache a kind does not wait for the others.
type tolerant struct{ ctrl.Manager }

// GetCache implements manager.Manager.
func (t tolerant) GetCache() cache.Cache { return eachAlone{t.Manager.GetCache()} }

// eachAlone is a cache whose kinds and namespaces are filled independently of each other.
type eachAlone struct{ cache.Cache }

// GetInformer implements cache.Informers. Events of one namespace do not wait until another may be watched.
func (c eachAlone) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	return c.Cache.GetInformer(ctx, object, append(options, cache.BlockUntilSynced(false))...)
}

// WaitForCacheSync implements cache.Informers. A source waits for the events of its own kind after this.
func (c eachAlone) WaitForCacheSync(ctx context.Context) bool { return ctx.Err() == nil }

// tolerated watches objects that KafkaAccesses refer to. The controller starts without them, so that KafkaAccesses have
// a status although the watch is denied.
func (t tolerant) tolerated(object client.Object, enqueue handler.EventHandler, news ...predicate.Predicate) source.Source {
	return source.Func(source.Kind(t.GetCache(), object, enqueue, news...).Start)
}

// denials has all KafkaAccesses of the form reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) denials() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		accesses, err := r.listForm(ctx, r.form, "")
		names := make([]types.NamespacedName, 0, len(accesses))
		for _, access := range accesses {
			names = append(names, access.Key())
		}
		return names, err
	})
}

// denial is why changes of a KafkaAccess, or of what it refers to, are not noticed; nil while they are.
func (r *Reconciler) denial(access types.NamespacedName, read map[reference]string) *watches.DeniedError {
	for _, denial := range r.options.Watches.Denials() {
		if denial.Covers(ofAccess.watched(r.form), access.Namespace) {
			return denial
		}
		for referred := range read {
			if denial.Covers(referred.kind.watched(r.form), referred.name.Namespace) {
				return denial
			}
		}
	}
	return nil
}
