package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/topic/model"
)

// patchFinalizers changes the finalizers of a topic exactly as it was read.
func (r *Reconciler) patchFinalizers(ctx context.Context, topic *kafkav1.KafkaTopic, to func(metav1.Object, string) bool) error {
	before := topic.DeepCopy()
	if !to(topic, r.options.Cluster.Name) {
		return nil
	}
	err := r.options.Client.Patch(ctx, topic, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(model.Owner))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("changing the finalizers of KafkaTopic %s: %w", topic.Name, err)
	}
	return nil
}

// release drops the finalizers of a topic that is not managed in Kafka any more. Those of other Kafkas stay.
func (r *Reconciler) release(ctx context.Context, o model.Observed) error {
	wasKept := model.IsKeptFor(o.Topic, r.options.Cluster.Name)
	if err := r.patchFinalizers(ctx, o.Topic, model.LetGo); err != nil {
		return err
	}
	if wasKept && o.Kafka == nil && o.Topic.DeletionTimestamp.IsZero() {
		r.options.Events.Eventf(o.Topic, nil, corev1.EventTypeNormal, model.KafkaDeleted, actionReconcile, "%s", model.Abandoned(r.options.Cluster.Name))
	}
	return nil
}

// finish deletes the topic of a deleted object where that is decided, and then lets the object go.
func (r *Reconciler) finish(ctx context.Context, o model.Observed, d model.Decision) (outcome, error) {
	if !r.hold(o.Topic).isAny() {
		return outcome{}, nil
	}
	done := outcome{}
	if d.Delete != nil {
		d = r.delete(ctx, o, d, &done)
	}
	if !d.LetGo {
		return done, r.report(ctx, o, d)
	}
	if err := r.release(ctx, o); err != nil {
		return outcome{}, err
	}
	if d.Event != nil {
		r.options.Events.Eventf(o.Topic, nil, corev1.EventTypeNormal, string(d.Event.Reason), actionReconcile, "%s", d.Event.Message)
	}
	return done, nil
}

// delete deletes a topic in Kafka. An object whose topic is not deleted stays.
func (r *Reconciler) delete(ctx context.Context, o model.Observed, d model.Decision, done *outcome) model.Decision {
	if err := r.ledger.client.DeleteTopic(ctx, *d.Delete); err != nil {
		d = r.fails(d, err, o.Now, done)
		problem := model.NotDeleted(*d.Problem)
		d.Problem, d.LetGo, d.Event = &problem, false, nil
		return d
	}
	r.ledger.noteDeleted(model.Name(o.Topic), o.Now)
	r.options.Log.Info("deleted a topic", "topic", model.Name(o.Topic), "id", d.Delete.String())
	r.options.Metrics.changed(deleted)
	return d
}
