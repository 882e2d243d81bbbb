package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/departed"
	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/user/model"
)

// CacheOptions limits the cache to one cluster: its Kafka, its KafkaUsers, and the metadata of its Secrets. What a
// Secret holds cannot be read through it: no informer of whole Secrets exists.
func CacheOptions(cluster types.NamespacedName) cache.Options {
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{kafkamodel.ClusterLabel: cluster.Name})}
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		DefaultNamespaces:           map[string]cache.Config{cluster.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			&kafkav1.Kafka{}:     {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, cluster.Name)},
			&kafkav1.KafkaUser{}: ofCluster,
			&corev1.Secret{}:     ofCluster,
		},
	}
}

// SetupWithManager starts the controller: a user is looked at when it changes, when its Secret does or the one that
// its password comes from, when the Kafka or the clients CA does, and when its label no longer names the cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ofOthers, err := departed.Source(mgr, r.options.Cluster, kafkav1.KindKafkaUser, finalizers.Users)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("kafkauser").
		For(&kafkav1.KafkaUser{}, builder.WithPredicates(specChanged())).
		Watches(&kafkav1.Kafka{}, handler.EnqueueRequestsFromMapFunc(r.allUsers), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf)).
		WatchesRawSource(r.named.Source(mgr, r.memory.tell)).
		WatchesRawSource(ofOthers).
		WatchesRawSource(r.usersByWatches()).
		WatchesRawSource(r.options.Issuers).
		WatchesRawSource(r.users.Source()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the KafkaUser controller: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("kafkausers").
		For(&kafkav1.Kafka{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(r.overseer.Source()).
		Complete(reconcile.Func(r.Oversee))
	if err != nil {
		return fmt.Errorf("starting the controller of all KafkaUsers together: %w", err)
	}
	return nil
}

// specChanged leaves out changes of the status, but for that of another user operator which lets a user go.
func specChanged() predicate.Predicate {
	finalizersChanged := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
	hasDeparted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		user, is := e.ObjectNew.(*kafkav1.KafkaUser)
		return is && model.HasDeparted(user.Status)
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, finalizersChanged, hasDeparted)
}

// usersOf are the users that a Secret is about: all of them for one of the clients CA.
func (r *Reconciler) usersOf(ctx context.Context, secret client.Object) []reconcile.Request {
	switch secret.GetName() {
	case authorities.Clients.CertSecret(r.options.Cluster.Name), authorities.Clients.KeySecret(r.options.Cluster.Name):
		return r.allUsers(ctx, secret)
	case authorities.Clients.TrustedCertsSecret(r.options.Cluster.Name):
		if kafka, _, err := r.kafka(ctx); err == nil && model.OfIssuer(kafka) {
			return r.allUsers(ctx, secret)
		}
		var requests []reconcile.Request
		for _, user := range r.memory.awaitTrust() {
			requests = append(requests, reconcile.Request{NamespacedName: user})
		}
		return requests
	}
	user, isUsers := strings.CutPrefix(secret.GetName(), r.options.SecretPrefix)
	if !isUsers || secret.GetLabels()[kafkamodel.KindLabel] != kafkav1.KindKafkaUser {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: secret.GetNamespace(), Name: user}}}
}

func (r *Reconciler) allUsers(ctx context.Context, _ client.Object) []reconcile.Request {
	var users kafkav1.KafkaUserList
	if err := r.options.Client.List(ctx, &users, client.InNamespace(r.options.Cluster.Namespace)); err != nil {
		r.options.Log.Error(err, "listing the users of a changed clients CA")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(users.Items))
	for i := range users.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&users.Items[i])})
	}
	return requests
}
