package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
)

// concurrent is how many KafkaAccesses are reconciled at the same time.
const concurrent = 8

// No event tells when a permission is granted, so the last wait must not be long.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// SetupWithManager starts the controller: a KafkaAccess is reconciled when it changes, and when an object changes
// that its last reconcile has read.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	apart, secrets := tolerant{mgr}, &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(ofSecret)))
	err := ctrl.NewControllerManagedBy(apart).
		Named("kafkaaccess-" + r.form.GroupVersion.Version).
		For(newObject(r.form)).
		WatchesRawSource(apart.tolerated(&accessv1alpha1.KafkaAccess{}, r.referrers(ofAccess))).
		WatchesRawSource(apart.tolerated(&kafkav1beta2.KafkaAccess{}, r.referrers(ofAccess))).
		WatchesRawSource(apart.tolerated(&kafkav1.Kafka{}, r.referrers(ofKafka), isNews())).
		WatchesRawSource(apart.tolerated(&kafkav1.KafkaUser{}, r.referrers(ofUser), isNews())).
		WatchesRawSource(apart.tolerated(secrets, r.referrers(ofSecret))).
		WatchesRawSource(r.denials()).
		WatchesRawSource(r.named.Source(mgr)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the KafkaAccess controller: %w", err)
	}
	return nil
}

// referrers are the KafkaAccesses to reconcile when an object of the kind changes.
func (r *Reconciler) referrers(kind kind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		accesses := r.references.to(reference{kind, client.ObjectKeyFromObject(object)})
		requests := make([]reconcile.Request, 0, len(accesses))
		for _, access := range accesses {
			requests = append(requests, reconcile.Request{NamespacedName: access})
		}
		return requests
	})
}
