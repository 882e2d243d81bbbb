package controller

import (
	"context"
	"fmt"
	"slices"

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
	"github.com/keyturn/keyturn/internal/kafka/departed"
	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// CacheOptions limits the cache to one cluster: its Kafka and its KafkaTopics.
func CacheOptions(cluster types.NamespacedName) cache.Options {
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		DefaultTransform:            cache.TransformStripManagedFields(),
		DefaultNamespaces:           map[string]cache.Config{cluster.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			&kafkav1.Kafka{}:      {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, cluster.Name)},
			&kafkav1.KafkaTopic{}: {Label: labels.SelectorFromSet(labels.Set{kafkamodel.ClusterLabel: cluster.Name})},
		},
	}
}

// NameIndex is the index of KafkaTopics by the names of their topics in Kafka.
const NameIndex = "topic-name"

// Index are the entries of an object in NameIndex.
func Index(object client.Object) []string {
	topic, is := object.(*kafkav1.KafkaTopic)
	if !is {
		return nil
	}
	return model.Names(topic)
}

// SetupWithManager starts the controller: a topic is looked at when it changes, when another KafkaTopic of the same topic does, when
// the Kafka does, and when its label no longer names the cluster.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &kafkav1.KafkaTopic{}, NameIndex, Index); err != nil {
		return fmt.Errorf("preparing the index of topics' names: %w", err)
	}
	ofOthers, err := departed.Source(mgr, r.options.Cluster, kafkav1.KindKafkaTopic, finalizers.Topics)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("kafkatopic").
		For(&kafkav1.KafkaTopic{}, builder.WithPredicates(specChanged())).
		Watches(&kafkav1.KafkaTopic{}, handler.EnqueueRequestsFromMapFunc(r.othersOf), builder.WithPredicates(claimChanged())).
		Watches(&kafkav1.Kafka{}, handler.EnqueueRequestsFromMapFunc(r.allTopics), builder.WithPredicates(lifeChanged())).
		WatchesRawSource(ofOthers).
		WatchesRawSource(r.topicsByWatches()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("starting the KafkaTopic controller: %w", err)
	}
	return nil
}

// specChanged leaves out changes of the status, but for that of another topic operator which lets a topic go.
func specChanged() predicate.Predicate {
	finalizersChanged := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
	hasDeparted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		topic, is := e.ObjectNew.(*kafkav1.KafkaTopic)
		return is && model.HasDeparted(topic.Status)
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{}, finalizersChanged, hasDeparted)
}

// claimChanged lets through what makes another KafkaTopic of the same topic manage it, or no longer.
func claimChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isTopic := e.ObjectOld.(*kafkav1.KafkaTopic)
		after, is := e.ObjectNew.(*kafkav1.KafkaTopic)
		return isTopic && is && model.ClaimOf(before) != model.ClaimOf(after)
	}}
}

// lifeChanged lets through a Kafka that begins to exist, or no longer does.
func lifeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}

// othersOf are the other KafkaTopics of the same topic.
func (r *Reconciler) othersOf(ctx context.Context, object client.Object) []reconcile.Request {
	topic, is := object.(*kafkav1.KafkaTopic)
	if !is {
		return nil
	}
	others, err := r.others(ctx, topic)
	if err != nil {
		r.options.Log.Error(err, "listing the other KafkaTopics of a topic", "topic", topic.Name)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(others))
	for _, other := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(other)})
	}
	return requests
}

func (r *Reconciler) allTopics(ctx context.Context, _ client.Object) []reconcile.Request {
	var list kafkav1.KafkaTopicList
	if err := r.options.Client.List(ctx, &list, client.InNamespace(r.options.Cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		r.options.Log.Error(err, "listing the topics of a changed Kafka")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
