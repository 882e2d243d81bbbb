package controller

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// setUpAccess starts the controller of EtcdAccesses. It looks at one when its spec changes, when its Secret or the CA of
// its cluster does, and when its cluster is created, allows other namespaces, or has got its CAs.
func (r *Reconciler) setUpAccess(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("etcdaccess").
		For(&keyturnv1alpha1.EtcdAccess{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&etcdv1beta2.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(r.accessesTo), builder.WithPredicates(grantsOthers())).
		WatchesRawSource(r.accessesByWatches()).
		WatchesRawSource(r.accessed.Source(mgr)).
		Complete(reconcile.Func(r.ReconcileAccess))
	if err != nil {
		return fmt.Errorf("starting the EtcdAccess controller: %w", err)
	}
	return nil
}

// grantsOthers selects changes of a cluster after which an EtcdAccess may get another certificate, or none.
func grantsOthers() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, is := e.ObjectOld.(*etcdv1beta2.EtcdCluster)
			after, isToo := e.ObjectNew.(*etcdv1beta2.EtcdCluster)
			return is && isToo && hasCAs(before) != hasCAs(after)
		},
	})
}

// accessesTo are the EtcdAccesses that refer to a cluster.
func (r *Reconciler) accessesTo(ctx context.Context, cluster client.Object) []reconcile.Request {
	var accesses keyturnv1alpha1.EtcdAccessList
	if err := r.options.Client.List(ctx, &accesses); err != nil {
		r.options.Log.Error(err, "listing the EtcdAccesses to a changed EtcdCluster")
		return nil
	}
	var requests []reconcile.Request
	for i := range accesses.Items {
		access := &accesses.Items[i]
		if model.AccessedCluster(access).NamespacedName() == client.ObjectKeyFromObject(cluster) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(access)})
		}
	}
	return requests
}
