package watches

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Denied are the denials for which changes of objects of these resources in a namespace are not noticed.
func (o *Observer) Denied(namespace string, resources ...schema.GroupResource) []*DeniedError {
	var denied []*DeniedError
	for _, denial := range o.Denials() {
		if slices.ContainsFunc(resources, func(resource schema.GroupResource) bool { return denial.Covers(resource, namespace) }) {
			denied = append(denied, denial)
		}
	}
	return denied
}

// Dependents is a source of a controller: it has objects reconciled whenever a watch is denied or no longer denied.
func (o *Observer) Dependents(list func(context.Context) ([]types.NamespacedName, error)) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go o.Follow(ctx, func([]*DeniedError) {
			names, err := list(ctx)
			if err != nil {
				log.FromContext(ctx).Error(err, "listing the objects that depend on a denied watch")
				return
			}
			for _, name := range names {
				queue.Add(reconcile.Request{NamespacedName: name})
			}
		})
		return nil
	})
}
