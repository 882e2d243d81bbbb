package controller

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// setUpPKI starts the controller of the EtcdPKI. It looks when that changes, when a cluster needs CAs, and when one of the
// two CertificateSigningRequests does, of which it watches no others.
func (r *Reconciler) setUpPKI(mgr ctrl.Manager) error {
	requests := kube.NewNamed(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"))
	names := make([]types.NamespacedName, 0, len(contract.Planes()))
	for _, plane := range contract.Planes() {
		names = append(names, types.NamespacedName{Name: model.OperatorCA{Plane: plane}.SigningRequest()})
	}
	requests.ReferTo(thePKI().NamespacedName, names)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("etcdpki").
		For(&keyturnv1alpha1.EtcdPKI{}).
		Watches(&etcdv1beta2.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{thePKI()} },
		), builder.WithPredicates(needsOthers())).
		WatchesRawSource(requests.Source(mgr)).
		Complete(reconcile.Func(r.ReconcilePKI))
	if err != nil {
		return fmt.Errorf("starting the EtcdPKI controller: %w", err)
	}
	return nil
}

func thePKI() reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: keyturnv1alpha1.EtcdPKIName}}
}

// needsOthers selects changes after which a cluster needs other certificates of the operator's CAs.
func needsOthers() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, is := e.ObjectOld.(*etcdv1beta2.EtcdCluster)
			after, isToo := e.ObjectNew.(*etcdv1beta2.EtcdCluster)
			return is && isToo && hasCAs(before) != hasCAs(after)
		},
	})
}

// withoutCAs are the clusters that may wait for the operator's CAs.
func (r *Reconciler) withoutCAs(ctx context.Context, _ client.Object) []reconcile.Request {
	var clusters etcdv1beta2.EtcdClusterList
	if err := r.options.Client.List(ctx, &clusters); err != nil {
		r.options.Log.Error(err, "listing EtcdClusters that wait for CAs")
		return nil
	}
	var waiting []reconcile.Request
	for i := range clusters.Items {
		if etcd := &clusters.Items[i]; !hasCAs(etcd) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		}
	}
	return waiting
}
