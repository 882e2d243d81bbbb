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
	"github.com/keyturn/keyturn/internal/kube"
)

// stopped is a resource for which nothing is done while the clock is wrong. status is a copy of its status, with conditions in it.
type stopped struct {
	client.Object

	kind       schema.GroupVersionKind
	status     any
	conditions *[]metav1.Condition
}

// reportClock says so, and changes nothing else.
func (r *Reconciler) reportClock(ctx context.Context, s stopped, ahead time.Duration) (ctrl.Result, error) {
	wait := ctrl.Result{RequeueAfter: kube.ClockPause}
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
