package apitest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
)

// alwaysLate is a client whose Secrets somebody else always creates first.
type alwaysLate struct{ client.Client }

func (c alwaysLate) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, secret := object.(*corev1.Secret); secret {
		return apierrors.NewAlreadyExists(corev1.Resource("secrets"), object.GetName())
	}
	return c.Client.Create(ctx, object, options...)
}

func TestARaceThatIsLostAgainAndAgainIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	reconciler := w.newReconcilerBeside(alwaysLate{w.faulty}, w.faulty)
	pass := func() {
		result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)})
		if err != nil || result.RequeueAfter != time.Second {
			t.Errorf("the next look is in %s, %v; want a second", result.RequeueAfter, err)
		}
	}

	for range 4 {
		pass()
	}
	if w.hasReason("ReconciliationFailed") {
		t.Error("races that are lost for a few seconds are told")
	}
	pass()
	w.wantCondition(condition.NotReady, "already exists")
}
