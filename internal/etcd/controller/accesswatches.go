package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// checkWatches reports a watch that is denied, and looks again: no event tells what becomes of what the EtcdAccess depends on.
func (a *accessPass) checkWatches() {
	const operator = "the etcd operator"
	for _, denial := range a.options.Watches.Denials() {
		if !a.dependsOn(denial) {
			continue
		}
		a.lookAgain()
		if a.problem == nil {
			a.problem = &model.Problem{Reason: model.Reason(denial.Reason()), Message: fmt.Sprintf(
				"The API server %s. Changes are not noticed: the Secret is compared from time to time, at least every ten minutes. %s.",
				denial.Answer(operator), denial.Remedy(operator))}
		}
		return
	}
}

func (a *accessPass) dependsOn(denial *watches.DeniedError) bool {
	secrets := schema.GroupResource{Resource: "secrets"}
	return denial.Covers(keyturnv1alpha1.GroupVersion.WithResource("etcdaccesses").GroupResource(), a.access.Namespace) ||
		denial.Covers(etcdv1beta2.GroupVersion.WithResource("etcdclusters").GroupResource(), model.AccessedCluster(a.access).Namespace) ||
		denial.Covers(secrets, a.access.Namespace) || denial.Covers(secrets, a.options.Namespace)
}

// deniedWatches has all EtcdAccesses reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) deniedWatches() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go r.options.Watches.Follow(ctx, func([]*watches.DeniedError) {
			var accesses keyturnv1alpha1.EtcdAccessList
			if err := r.options.Client.List(ctx, &accesses); err != nil {
				r.options.Log.Error(err, "listing the EtcdAccesses that depend on a denied watch")
				return
			}
			for i := range accesses.Items {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&accesses.Items[i])})
			}
		})
		return nil
	})
}
