package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// leave lets a topic go that is not in the cache: it is gone, or its label names another cluster now or none. In Kafka it stays: that
// a label changes deletes no records.
func (r *Reconciler) leave(ctx context.Context, key types.NamespacedName, now time.Time) error {
	topic, exists, err := kube.Read[kafkav1.KafkaTopic](ctx, r.options.Live, key)
	if err != nil {
		return fmt.Errorf("looking for a topic that is not listed: %w", err)
	}
	isKept := exists && model.IsKeptFor(topic, r.options.Cluster.Name)
	_, isKnown := r.memory.Of(key)
	wasOurs := isKept || exists && isKnown
	r.forget(key)
	if !wasOurs || r.isNamedBy(topic) {
		return nil
	}
	if topic.DeletionTimestamp.IsZero() {
		o := model.Observed{Topic: topic, Cluster: r.options.Cluster.Name, Now: now}
		if err := r.report(ctx, o, model.Departed(topic, r.options.Cluster.Name)); client.IgnoreNotFound(err) != nil {
			return err
		}
		r.forget(key)
		// The finalizer is removed from the version that has the report.
		if topic, exists, err = kube.Read[kafkav1.KafkaTopic](ctx, r.options.Live, key); err != nil || !exists || r.isNamedBy(topic) {
			return err
		}
	}
	return r.patchFinalizers(ctx, topic, model.LetGoOf)
}

// isNamedBy reports whether the label of a topic names the Kafka of this operator.
func (r *Reconciler) isNamedBy(topic *kafkav1.KafkaTopic) bool {
	return topic.Labels[kafkamodel.ClusterLabel] == r.options.Cluster.Name
}
