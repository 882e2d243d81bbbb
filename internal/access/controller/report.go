package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// action is what events say was done, as events.k8s.io wants it.
const action = "Reconcile"

// maxNote is the longest note of an event.
const maxNote = 1000

// report writes the status if it differs, and announces it if the KafkaAccess is in another state than before.
func (r *Reconciler) report(ctx context.Context, access *binding.Access, next accessv1alpha1.KafkaAccessStatus) error {
	before := *access
	after := *access
	after.Status = next
	r.options.Metrics.reconciled(r.form.GroupVersion, access.Key(), isReady(&after))
	if binding.IsReported(access, next) {
		return nil
	}
	if err := r.applier.ApplyStatus(ctx, binding.StatusIntent(access, next)); err != nil {
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
	old, condition := binding.Ready(before), binding.Ready(after)
	if old == nil || condition == nil || old.Status == condition.Status && old.Reason == condition.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	if condition.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	r.options.Events.Eventf(regarding(after), nil, kind, condition.Reason, action, "%s", excerpt.Ends(condition.Message, maxNote))
	log.FromContext(ctx).Info("the KafkaAccess changed its state", "ready", condition.Status, "reason", condition.Reason, "message", condition.Message)
}

// warn writes an event when there is something to warn of that there was not before.
func (r *Reconciler) warn(before, after *binding.Access) {
	old, condition := binding.Warning(before), binding.Warning(after)
	if condition == nil || old != nil && old.Reason == condition.Reason && old.Message == condition.Message {
		return
	}
	r.options.Events.Eventf(regarding(after), nil, corev1.EventTypeWarning, condition.Reason, action, "%s", excerpt.Ends(condition.Message, maxNote))
}
