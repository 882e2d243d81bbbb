package controller

import (
	"context"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/operate"
)

// stopped is a resource for which nothing is done while the clock is wrong. before points to its status, and wanted to a copy
// with conditions in it.
type stopped struct {
	client.Object

	before, wanted any
	conditions     *[]metav1.Condition
}

// reportClock says so, and changes nothing else.
func (r *Reconciler) reportClock(ctx context.Context, s stopped, ahead time.Duration) (ctrl.Result, error) {
	wait := ctrl.Result{RequeueAfter: kube.ClockPause}
	conditions, isNew := model.WithClock(*s.conditions, s.GetGeneration(), ahead, r.options.Clock.Now())
	if !isNew {
		return wait, nil
	}
	*s.conditions = conditions
	if isWritten, err := r.statuses.Record(ctx, s.Object, s.before, s.wanted); err != nil || !isWritten {
		return ctrl.Result{}, err
	}
	r.events(actionReconcile).Announce(s.Object, apimeta.FindStatusCondition(conditions, etcdv1beta2.ConditionReady))
	return wait, nil
}

func (r *Reconciler) events(action string) operate.Events {
	return operate.Events{Recorder: r.options.Events, Action: action}
}
