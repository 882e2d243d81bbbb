package apitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/unattended/controller"
)

func TestAnAccessWithoutAnOperatorSaysSoUntilOneStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cluster()
	w.access("my-user", nil)
	var access accessv1alpha1.KafkaAccess
	w.get("my-app", &access)
	reporter := controller.New(binding.Unattended(binding.Public()), controller.Options{
		Client: w.person, Live: w.person, Events: events.NewFakeRecorder(1),
		Clock: clocktesting.NewFakePassiveClock(access.CreationTimestamp.Add(unattended.Patience)),
	})

	if _, err := reporter.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&access)}); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(w.status().Conditions, "Ready"); c == nil || c.Reason != unattended.Reason {
		t.Errorf("the conditions are %+v", w.status().Conditions)
	}

	w.mustReconcile()
	if conditions := w.status().Conditions; len(conditions) != 1 || conditions[0].Reason != string(binding.Bound) {
		t.Errorf("the conditions are %+v", conditions)
	}
}
