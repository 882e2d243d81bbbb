package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/keyturn/keyturn/internal/kafka/model"
)

// SetupWithManager starts the controller: a Kafka is looked at when anything of
// its cluster changes, when a Secret it refers to changes, and never by a timer
// alone.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	server, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("preparing to watch Secrets by their names: %w", err)
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("kafka").
		For(metadataObject(kafkaKind())).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			go r.named.Run(ctx, server, func(kafka types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: kafka}) })
			return nil
		})).
		WatchesRawSource(r.kafkasByWatches()).
		WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			changed := func(_ context.Context, kafka types.NamespacedName) {
				queue.Add(reconcile.Request{NamespacedName: kafka})
			}
			go func() { _ = r.Poll(ctx, changed) }() // it ends with the context, and without an error
			return nil
		}))
	if r.options.Outside != nil {
		b = b.WatchesRawSource(r.options.Outside)
	}
	for _, object := range r.labelled() {
		b = b.Watches(object, handler.EnqueueRequestsFromMapFunc(ClusterOf))
	}
	if err := b.Complete(reconcile.Func(r.Reconcile)); err != nil {
		return fmt.Errorf("starting the Kafka controller: %w", err)
	}
	return nil
}

// labelled are the kinds, whole or as metadata, whose objects tell by their label which
// Kafka has to be looked at.
func (r *Reconciler) labelled() []client.Object {
	owned := r.owned()
	metadata := make([]client.Object, 0, len(owned))
	for _, kind := range owned {
		metadata = append(metadata, metadataObject(kind))
	}
	return append(metadata,
		metadataObject(poolKind()),
		metadataObject(podSetVersionKind()),
		&corev1.Pod{},
		&corev1.PersistentVolumeClaim{},
		metadataObject(secretKind()),
	)
}

// ClusterOf maps an object to the Kafka its label names.
func ClusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[model.ClusterLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}
