package apitest

import (
	"testing"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/topic/model"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/unattended/controller"
)

func TestATopicWithoutAnOperatorSaysSoUntilOneStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 1))
	clock := clocktesting.NewFakePassiveClock(w.read("orders").CreationTimestamp.Add(unattended.Patience))
	reporter := controller.New(model.Unattended(), controller.Options{Client: w.person, Live: w.person, Events: events.NewFakeRecorder(10), Clock: clock})
	report := func() {
		t.Helper()
		if _, err := reporter.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.read("orders"))}); err != nil {
			t.Fatal(err)
		}
	}
	report()
	w.reports("orders", unattended.Reason)
	w.reconcile("orders")
	w.reports("orders", "")
	if report(); len(w.read("orders").Status.Conditions) != 1 {
		t.Errorf("the conditions are %+v", w.read("orders").Status.Conditions)
	}
}
