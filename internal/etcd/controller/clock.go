package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// clockPause lies between two looks at a clock that is wrong: no event tells when it is set.
const clockPause = 10 * time.Second

// ahead is how much the clock is ahead of the API server's, and whether that is too much to issue by it: certificates
// are valid from pki.Backdate before they are issued.
func (r *Reconciler) ahead() (by time.Duration, isWrong bool) {
	if r.options.Ahead == nil {
		return 0, false
	}
	by = r.options.Ahead()
	return by, by.Abs() > pki.Backdate
}

// stopped is a resource for which nothing is done while the clock is wrong. status is a copy of its status, with conditions in it.
type stopped struct {
	client.Object

	kind       schema.GroupVersionKind
	status     any
	conditions *[]metav1.Condition
}

// reportClock says so, and changes nothing else.
func (r *Reconciler) reportClock(ctx context.Context, s stopped, ahead time.Duration) (ctrl.Result, error) {
	wait := ctrl.Result{RequeueAfter: clockPause}
	conditions, isNew := model.WithClock(*s.conditions, s.GetGeneration(), ahead, r.options.Clock.Now())
	if !isNew {
		return wait, nil
	}
	*s.conditions = conditions
	intent, err := recordIntent(s.kind, s, s.status)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.appliers.Of(s.GetUID()).ApplyStatus(ctx, intent); err != nil {
		return ctrl.Result{}, err
	}
	ready := apimeta.FindStatusCondition(conditions, etcdv1beta2.ConditionReady)
	r.options.Events.Eventf(s.Object, nil, corev1.EventTypeWarning, ready.Reason, actionReconcile, "%s", ready.Message)
	return wait, nil
}
