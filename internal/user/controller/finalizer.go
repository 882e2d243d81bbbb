package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// isKept reports whether the Kafka may hold something for a user.
func (r *Reconciler) isKept(user *kafkav1.KafkaUser) bool {
	return model.IsKeptFor(user, r.options.Cluster.Name)
}

// setFinalizer puts the finalizer on a user before anything is written to Kafka for it.
func (r *Reconciler) setFinalizer(ctx context.Context, user *kafkav1.KafkaUser) error {
	return r.patchFinalizers(ctx, user, model.KeepFor)
}

// dropFinalizer lets a user go. The finalizers of other Kafkas stay.
func (r *Reconciler) dropFinalizer(ctx context.Context, user *kafkav1.KafkaUser) error {
	return r.patchFinalizers(ctx, user, model.LetGo)
}

// patchFinalizers changes the finalizers of a user exactly as it was read.
func (r *Reconciler) patchFinalizers(ctx context.Context, user *kafkav1.KafkaUser, to func(metav1.Object, string) bool) error {
	before := user.DeepCopy()
	if !to(user, r.options.Cluster.Name) {
		return nil
	}
	err := r.options.Client.Patch(ctx, user, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(model.Owner))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("changing the finalizers of KafkaUser %s: %w", user.Name, err)
	}
	return nil
}

// release drops the finalizer of a user that wants nothing of Kafka, once Kafka holds nothing for it or is gone.
func (r *Reconciler) release(ctx context.Context, o model.Observed) error {
	if !r.isKept(o.User) {
		return nil
	}
	if isAlive(o.Kafka) {
		return r.dropFinalizer(ctx, o.User)
	}
	kafka, err := r.liveKafka(ctx)
	if err != nil || isAlive(kafka) {
		return err
	}
	return r.abandon(ctx, o.User)
}

// liveKafka reads the Kafka past the cache, nil when there is none: what the cache does not show may exist.
func (r *Reconciler) liveKafka(ctx context.Context) (*kafkav1.Kafka, error) {
	kafka, _, err := kube.Read[kafkav1.Kafka](ctx, r.options.Live, r.options.Cluster)
	return kafka, err
}

// abandon drops the finalizer of a user whose Kafka does not exist any more.
func (r *Reconciler) abandon(ctx context.Context, user *kafkav1.KafkaUser) error {
	if err := r.dropFinalizer(ctx, user); err != nil {
		return err
	}
	r.options.Events.Eventf(user, nil, corev1.EventTypeNormal, model.KafkaDeleted, actionReconcile, "%s", model.Abandoned(r.options.Cluster.Name))
	return nil
}

// finish removes what Kafka holds for a deleted user, and lets it go.
func (r *Reconciler) finish(ctx context.Context, user *kafkav1.KafkaUser, now time.Time) (ctrl.Result, error) {
	if !r.isKept(user) {
		return ctrl.Result{}, nil
	}
	kafka, err := r.liveKafka(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	inKafka, err := r.clear(ctx, user, kafka, now)
	if inKafka == nil || err != nil {
		return ctrl.Result{}, err
	}
	done := outcome{}
	r.postpone(inKafka, now, &done)
	problem := r.explain(inKafka)
	problem.Message += fmt.Sprintf(" The KafkaUser is deleted once Kafka holds nothing for it. To delete it now, remove the finalizer %s from it.",
		model.Finalizer(r.options.Cluster.Name))
	d := model.Decision{Username: model.Username(user), Problem: &problem}
	if err := r.report(ctx, model.Observed{User: user, Kafka: kafka, Now: now}, d, user.Status.Secret); err != nil {
		return ctrl.Result{}, err
	}
	return waitUntil(earliest(done.wake, r.ledger.nextLook()), now), nil
}

// clear makes Kafka hold nothing for a user and drops its finalizer. The first error is that of Kafka.
func (r *Reconciler) clear(ctx context.Context, user *kafkav1.KafkaUser, kafka *kafkav1.Kafka, now time.Time) (inKafka, err error) {
	if !r.isKept(user) {
		return nil, nil
	}
	if !isAlive(kafka) {
		return nil, r.abandon(ctx, user)
	}
	if err := r.look(ctx, kafka.UID, now); err != nil {
		return err, nil
	}
	if err := r.removeAll(ctx, user, now); err != nil {
		return err, nil
	}
	return nil, r.dropFinalizer(ctx, user)
}

// removeAll makes Kafka hold nothing for a user, under both of its names.
func (r *Reconciler) removeAll(ctx context.Context, user *kafkav1.KafkaUser, now time.Time) error {
	r.ledger.gate.RLock()
	defer r.ledger.gate.RUnlock()
	return r.remove(ctx, model.PlanRemoval(user, r.ledger.held), now)
}
