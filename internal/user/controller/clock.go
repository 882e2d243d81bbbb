package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// reportClock says of a user that nothing of it is changed. It is looked at as after a start once the clock is right.
func (r *Reconciler) reportClock(ctx context.Context, user *kafkav1.KafkaUser, ahead time.Duration, now time.Time) (ctrl.Result, error) {
	r.memory.forget(client.ObjectKeyFromObject(user))
	wait := ctrl.Result{RequeueAfter: kube.ClockPause}
	status, begins := model.WithClock(user.Status, ahead, now)
	if !begins {
		return wait, nil
	}
	if _, err := r.statuses.Apply(ctx, user, &user.Status, &status); err != nil {
		return ctrl.Result{}, err
	}
	warning := model.ClockWarning(ahead)
	r.options.Events.Eventf(user, nil, corev1.EventTypeWarning, string(warning.Reason), actionReconcile, "%s", warning.Message)
	return wait, nil
}
