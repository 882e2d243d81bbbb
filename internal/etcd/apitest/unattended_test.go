package apitest

import (
	"testing"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/unattended/controller"
)

func TestAnEtcdAccessSaysThatNothingIsWrittenUntilItIsTurnedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	access := w.access(w.namespace, "")
	reporter := controller.New(model.UnattendedAccess(), controller.Options{
		Client: w.person, Live: w.person, Events: events.NewFakeRecorder(1),
		Clock: clocktesting.NewFakePassiveClock(access.CreationTimestamp.Add(unattended.Patience)),
	})

	if _, err := reporter.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(access)}); err != nil {
		t.Fatal(err)
	}
	reported := &keyturnv1alpha1.EtcdAccess{}
	if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(access), reported); err != nil {
		t.Fatal(err)
	}
	if c := reported.Status.Conditions; len(c) != 2 || c[0].Reason != unattended.Reason || c[1].Type != "Reconciling" {
		t.Errorf("the conditions are %+v", c)
	}

	if c := w.grants(w.namespace).Conditions; len(c) != 2 || c[0].Reason == unattended.Reason || c[1].Reason != c[0].Reason {
		t.Errorf("the conditions are %+v", c)
	}
}
