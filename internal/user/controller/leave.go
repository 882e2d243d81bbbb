package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// leave clears a user that is not in the cache: it is gone, or its label names another cluster now or none.
func (r *Reconciler) leave(ctx context.Context, key types.NamespacedName, now time.Time) (ctrl.Result, error) {
	user, hasDeparted, err := r.departed(ctx, key, now)
	if !hasDeparted || err != nil {
		return ctrl.Result{}, err
	}
	kafka, err := r.liveKafka(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	inKafka, err := r.clear(ctx, user, kafka, now)
	if inKafka == nil || err != nil {
		return ctrl.Result{}, err
	}
	r.options.Log.Error(inKafka, "a user of another cluster keeps its rights until Kafka answers", "user", user.Name)
	done := outcome{}
	r.postpone(inKafka, now, &done)
	return waitUntil(earliest(done.wake, r.ledger.nextLook()), now), nil
}

// departed reads a user that left this Kafka for another one, after its status says so, and reports whether there is one.
func (r *Reconciler) departed(ctx context.Context, key types.NamespacedName, now time.Time) (*kafkav1.KafkaUser, bool, error) {
	user, exists, err := kube.Read[kafkav1.KafkaUser](ctx, r.options.Live, key)
	if err != nil {
		return nil, false, err
	}
	_, isKnown := r.memory.users.Of(key)
	wasOurs := exists && (r.isKept(user) || isKnown)
	if !wasOurs || r.isNamedBy(user) {
		r.forget(key)
		return nil, false, nil
	}
	if err := r.reportDeparture(ctx, user, now); err != nil {
		return nil, false, err
	}
	r.forget(key)
	// The finalizer is removed from the version that has the report.
	user, exists, err = kube.Read[kafkav1.KafkaUser](ctx, r.options.Live, key)
	return user, exists && !r.isNamedBy(user), err
}

// isNamedBy reports whether the label of a user names the Kafka of this operator.
func (r *Reconciler) isNamedBy(user *kafkav1.KafkaUser) bool {
	return user.Labels[kafkamodel.ClusterLabel] == r.options.Cluster.Name
}

// reportDeparture says that nothing keeps a user current, before it is let go: there may be no other user operator that can.
// One that there is takes this for news.
func (r *Reconciler) reportDeparture(ctx context.Context, user *kafkav1.KafkaUser, now time.Time) error {
	if !user.DeletionTimestamp.IsZero() {
		return nil
	}
	problem := model.Departed(user, r.options.Cluster.Name)
	d := model.Decision{Username: user.Status.Username, Problem: &problem}
	return client.IgnoreNotFound(r.report(ctx, model.Observed{User: user, Now: now}, d, user.Status.Secret))
}
