package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// watched are the resources by whose watches EtcdClusters are reconciled.
func (r *Reconciler) watched() []schema.GroupResource {
	watched := []schema.GroupResource{
		etcdv1beta2.GroupVersion.WithResource("etcdclusters").GroupResource(),
		corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims"), corev1.Resource("services"), corev1.Resource("serviceaccounts"),
		rbacv1.Resource("roles"), rbacv1.Resource("rolebindings"),
		policyv1.Resource("poddisruptionbudgets"), networkingv1.Resource("networkpolicies"),
	}
	if r.options.ReadsPKI {
		watched = append(watched, keyturnv1alpha1.GroupVersion.WithResource("etcdpkis").GroupResource())
	}
	return watched
}

// clusterOfCA is the cluster that a Secret in the operator's namespace belongs to. By its annotations people ask for another CA.
func (r *Reconciler) clusterOfCA(ctx context.Context, secret client.Object) []reconcile.Request {
	labels := secret.GetLabels()
	name := types.NamespacedName{Namespace: labels[model.NamespaceLabel], Name: labels[model.ClusterLabel]}
	if err := r.options.Client.Get(ctx, name, &etcdv1beta2.EtcdCluster{}); err != nil { // it is gone, or in a namespace that is not watched
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// denied are the watches that are denied and the cluster depends on. Its spec, which is read past the cache, is looked at again.
func (p *pass) denied() []model.Problem {
	denials := append(p.options.Watches.Denied(p.etcd.Namespace, p.watched()...), p.options.Watches.Denied(p.options.Namespace, corev1.Resource("secrets"))...)
	denied := make([]model.Problem, 0, len(denials))
	for _, denial := range denials {
		denied = append(denied, model.Problem{Reason: model.Reason(denial.Reason()), Message: denial.Report("the etcd operator",
			"Changes are not noticed: the cluster is looked at every 30 seconds, and its conditions may be old.")})
		p.wakeAt(p.now.Add(kube.Unwatched))
	}
	return denied
}

// clustersByWatches has all EtcdClusters reconciled whenever a watch is denied or no longer denied.
func (r *Reconciler) clustersByWatches() source.Source {
	return r.options.Watches.Dependents(func(ctx context.Context) ([]types.NamespacedName, error) {
		var clusters etcdv1beta2.EtcdClusterList
		if err := r.options.Client.List(ctx, &clusters); err != nil {
			return nil, fmt.Errorf("listing EtcdClusters: %w", err)
		}
		names := make([]types.NamespacedName, 0, len(clusters.Items))
		for i := range clusters.Items {
			names = append(names, client.ObjectKeyFromObject(&clusters.Items[i]))
		}
		return names, nil
	})
}
