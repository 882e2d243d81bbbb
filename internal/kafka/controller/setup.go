package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/podset"
)

// labelCluster names, on every object of a cluster, the Kafka it belongs to.
const labelCluster = "strimzi.io/cluster"

// CacheOptions limits the cache to what belongs to Kafka clusters in the
// namespaces, all when there are none. Secrets enter it as metadata only (see
// SetupWithManager), so that no key material stays in memory.
func CacheOptions(namespaces []string) cache.Options {
	ofCluster := labels.NewSelector()
	if has, err := labels.NewRequirement(labelCluster, selection.Exists, nil); err == nil {
		ofCluster = ofCluster.Add(*has)
	}
	labelled := cache.ByObject{Label: ofCluster}
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   labelled,
			&corev1.ConfigMap{}:             labelled,
			&corev1.Service{}:               labelled,
			&corev1.ServiceAccount{}:        labelled,
			&corev1.PersistentVolumeClaim{}: labelled,
			&policyv1.PodDisruptionBudget{}: labelled,
			&networkingv1.NetworkPolicy{}:   labelled,
			// Managed fields tell who has written a pod set.
			&podsetv1.StrimziPodSet{}: {Transform: func(object any) (any, error) { return object, nil }},
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

// SetupWithManager starts the controller: a Kafka is looked at when anything of
// its cluster changes, when a Secret it refers to changes, and never by a timer
// alone.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("kafka").
		For(rawObject(kafkaKind())).
		Watches(rawObject(poolKind()), handler.EnqueueRequestsFromMapFunc(clusterOf)).
		Watches(&podsetv1.StrimziPodSet{}, handler.EnqueueRequestsFromMapFunc(clusterOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOf)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(clusterOf)).
		WatchesMetadata(metadataObject(secretKind()), handler.EnqueueRequestsFromMapFunc(r.clustersOfSecret))
	for _, kind := range r.owned() {
		b = b.WatchesMetadata(metadataObject(kind), handler.EnqueueRequestsFromMapFunc(clusterOf))
	}
	if err := b.Complete(reconcile.Func(r.Reconcile)); err != nil {
		return fmt.Errorf("starting the Kafka controller: %w", err)
	}
	return nil
}

// clusterOf maps an object to the Kafka its label names.
func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[labelCluster]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// clustersOfSecret maps a Secret to the Kafka its label names and to those that
// refer to it by name: the Secrets of custom listener certificates carry no
// label of ours.
func (r *Reconciler) clustersOfSecret(ctx context.Context, object client.Object) []reconcile.Request {
	requests := clusterOf(ctx, object)
	list := rawList(kafkaKind())
	if err := r.options.Client.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		return requests
	}
	for i := range list.Items {
		if refersTo(&list.Items[i], object.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// refersTo reports whether a listener of the Kafka takes its certificate from
// the Secret.
func refersTo(kafka *unstructured.Unstructured, secret string) bool {
	var typed kafkav1.Kafka
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(kafka.Object, &typed); err != nil {
		return false
	}
	for i := range typed.Spec.Kafka.Listeners {
		if custom, ok := customCertificate(&typed.Spec.Kafka.Listeners[i]); ok && custom.SecretName == secret {
			return true
		}
	}
	return false
}

// PodMaker is this controller to the one that makes the pods that it describes.
func PodMaker() podset.Maker {
	return podset.Maker{
		FieldOwner: string(fieldOwner), Owner: kafkaKind(),
		ServiceAccount: func(kafka string) string { return model.Names{Cluster: kafka}.Kafka() },
	}
}

// customCertificate returns the reference to a listener's own certificate.
func customCertificate(listener *kafkav1.Listener) (kafkav1.CertAndKeySecretSource, bool) {
	if listener.Configuration == nil || listener.Configuration.BrokerCertChainAndKey == nil {
		return kafkav1.CertAndKeySecretSource{}, false
	}
	return *listener.Configuration.BrokerCertChainAndKey, true
}
