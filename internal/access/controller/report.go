package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/operate"
)

// action is what events say was done, as events.k8s.io wants it.
const action = "Reconcile"

// report writes the status if it differs, and announces it if the KafkaAccess is in another state than before.
func (r *Reconciler) report(ctx context.Context, access *binding.Access, next accessv1alpha1.KafkaAccessStatus) error {
	before := *access
	after := *access
	after.Status = next
	r.options.Metrics.reconciled(r.form.GroupVersion, access.Key(), isReady(&after))
	old, own := binding.Own(access.Status), binding.Own(next)
	if isWritten, err := r.statuses.Apply(ctx, regarding(access), &old, &own); err != nil || !isWritten {
		return client.IgnoreNotFound(err)
	}
	access.Status = next
	r.announce(ctx, &before, access)
	r.warn(&before, access)
	return nil
}

func isReady(access *binding.Access) bool {
	condition := binding.Ready(access)
	return condition != nil && condition.Status == metav1.ConditionTrue
}

// announce writes an event and a line of the log. That a KafkaAccess is looked at for the first time is no news.
func (r *Reconciler) announce(ctx context.Context, before, after *binding.Access) {
	news := operate.News(before.Status.Conditions, after.Status.Conditions, binding.ConditionReady)
	if news == nil || binding.Ready(before) == nil {
		return
	}
	r.events.Announce(regarding(after), news)
	log.FromContext(ctx).Info("the KafkaAccess changed its state", "ready", news.Status, "reason", news.Reason, "message", news.Message)
}

// warn writes an event when there is something to warn of that there was not before.
func (r *Reconciler) warn(before, after *binding.Access) {
	old, condition := binding.Warning(before), binding.Warning(after)
	if condition == nil || old != nil && old.Reason == condition.Reason && old.Message == condition.Message {
		return
	}
	r.events.Write(regarding(after), corev1.EventTypeWarning, condition)
}
