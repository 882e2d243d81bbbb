package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// setUpBackup starts the controller of EtcdBackups. It looks at one when its spec changes, when its pod does, and when its
// cluster has got a quorum or its CAs.
func (r *Reconciler) setUpBackup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("etcdbackup").
		For(&etcdv1beta2.EtcdBackup{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Pod{}).
		Watches(&etcdv1beta2.EtcdCluster{}, handler.EnqueueRequestsFromMapFunc(r.backupsOf), builder.WithPredicates(becomesAvailable())).
		Complete(reconcile.Func(r.ReconcileBackup))
	if err != nil {
		return fmt.Errorf("starting the EtcdBackup controller: %w", err)
	}
	return nil
}

// becomesAvailable selects changes of a cluster after which a backup that waited can be made, or its pod be certified.
func becomesAvailable() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, is := e.ObjectOld.(*etcdv1beta2.EtcdCluster)
			after, isToo := e.ObjectNew.(*etcdv1beta2.EtcdCluster)
			return is && isToo && (becomesTrue(before, after, etcdv1beta2.ConditionAvailable) || becomesTrue(before, after, etcdv1beta2.ConditionPKIReady) ||
				becomesTrue(before, after, etcdv1beta2.ConditionAttestationEnforced))
		},
	})
}

func becomesTrue(before, after *etcdv1beta2.EtcdCluster, condition string) bool {
	return !apimeta.IsStatusConditionTrue(before.Status.Conditions, condition) && apimeta.IsStatusConditionTrue(after.Status.Conditions, condition)
}

// backupsOf are the EtcdBackups of a cluster.
func (r *Reconciler) backupsOf(ctx context.Context, cluster client.Object) []reconcile.Request {
	var backups etcdv1beta2.EtcdBackupList
	if err := r.options.Client.List(ctx, &backups, client.InNamespace(cluster.GetNamespace())); err != nil {
		r.options.Log.Error(err, "listing the EtcdBackups of a changed EtcdCluster")
		return nil
	}
	var requests []reconcile.Request
	for i := range backups.Items {
		if (model.Backup{EtcdBackup: &backups.Items[i]}).ClusterNames().Cluster == cluster.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&backups.Items[i])})
		}
	}
	return requests
}
