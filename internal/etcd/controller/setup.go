package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/unattended"
)

// CacheOptions limits the cache to EtcdClusters and their objects, in these namespaces or in all when there are none. Of Secrets,
// it has the names and labels of those that hold CAs, in the operator's own namespace.
func CacheOptions(own string, namespaces []string) cache.Options {
	written := cache.ByObject{Transform: withoutWhatOthersAdd}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{model.ManagedByLabel: model.Manager})}
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: ours, &corev1.PersistentVolumeClaim{}: ours, &corev1.Service{}: ours,
			&corev1.ServiceAccount{}: ours, &rbacv1.Role{}: ours, &rbacv1.RoleBinding{}: ours,
			&policyv1.PodDisruptionBudget{}: ours, &networkingv1.NetworkPolicy{}: ours,
			&etcdv1beta2.EtcdCluster{}: written, &etcdv1beta2.EtcdBackup{}: written, &keyturnv1alpha1.EtcdAccess{}: written,
			&corev1.Secret{}: {Label: ours.Label, Namespaces: map[string]cache.Config{own: {}}, Transform: labelled},
		},
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// labelled keeps the name and the labels.
func labelled(object any) (any, error) {
	if meta, is := object.(client.Object); is {
		unattended.Trim(meta)
		meta.SetAnnotations(nil)
	}
	return object, nil
}

// withoutWhatOthersAdd drops labels and annotations that have no effect: any tenant can fill the memory with them.
func withoutWhatOthersAdd(object any) (any, error) {
	meta, is := object.(client.Object)
	if !is {
		return object, nil
	}
	consent, has := meta.GetAnnotations()[model.ConsentAnnotation]
	unattended.Trim(meta)
	meta.SetLabels(nil)
	meta.SetAnnotations(nil)
	if has {
		meta.SetAnnotations(map[string]string{model.ConsentAnnotation: consent})
	}
	return object, nil
}

// SetupWithManager starts the controller: a cluster is looked at when its spec changes, and when an object of it does.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("etcdcluster").
		For(&etcdv1beta2.EtcdCluster{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Pod{}).
		Owns(&corev1.PersistentVolumeClaim{}).
		Owns(&corev1.Service{}, builder.OnlyMetadata).
		Owns(&corev1.ServiceAccount{}, builder.OnlyMetadata).
		Owns(&rbacv1.Role{}, builder.OnlyMetadata).
		Owns(&rbacv1.RoleBinding{}, builder.OnlyMetadata).
		Owns(&policyv1.PodDisruptionBudget{}, builder.OnlyMetadata).
		Owns(&networkingv1.NetworkPolicy{}, builder.OnlyMetadata).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.clusterOfCA)).
		Watches(&etcdv1beta2.EtcdBackup{}, handler.EnqueueRequestsFromMapFunc(r.beginningWith)).
		WatchesRawSource(r.clustersByWatches()).
		WatchesRawSource(r.changed.Source())
	if r.options.ReadsPKI {
		if err := r.setUpPKI(mgr); err != nil {
			return err
		}
		b = b.Watches(&keyturnv1alpha1.EtcdPKI{}, handler.EnqueueRequestsFromMapFunc(r.withoutCAs))
	}
	if r.options.GrantsAccess {
		if err := r.setUpAccess(mgr); err != nil {
			return err
		}
	}
	if err := r.setUpBackup(mgr); err != nil {
		return err
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("starting the EtcdCluster controller: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(r.testAttestation)); err != nil {
		return fmt.Errorf("starting the test of the admission policy: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(r.lookAround)); err != nil {
		return fmt.Errorf("starting to look at members: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.poller.Run(ctx, r.notice) })); err != nil {
		return fmt.Errorf("starting to poll the agents of members: %w", err)
	}
	return nil
}
