package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
			a.problem = &model.Problem{Reason: model.Reason(denial.Reason()), Message: denial.Report(operator,
				"Changes are not noticed: the Secret is compared from time to time, at least every ten minutes.")}
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

// accessesByWatches has all EtcdAccesses reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) accessesByWatches() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		var accesses keyturnv1alpha1.EtcdAccessList
		err := r.options.Client.List(ctx, &accesses)
		names := make([]types.NamespacedName, 0, len(accesses.Items))
		for i := range accesses.Items {
			names = append(names, client.ObjectKeyFromObject(&accesses.Items[i]))
		}
		return names, err
	})
}
