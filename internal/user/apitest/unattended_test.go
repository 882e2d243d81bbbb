package apitest

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/unattended/controller"
	"github.com/keyturn/keyturn/internal/user/model"
)

func TestAUserWithoutAnOperatorSaysSoUntilOneStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	clock := clocktesting.NewFakePassiveClock(w.read("alice").CreationTimestamp.Time)
	told := events.NewFakeRecorder(10)
	reporter := controller.New(model.Unattended(), controller.Options{Client: w.person, Live: w.person, Events: told, Clock: clock})
	report := func() time.Duration {
		t.Helper()
		result, err := reporter.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.read("alice"))})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}

	if wait := report(); wait != unattended.Patience || len(w.read("alice").Status.Conditions) != 0 {
		t.Errorf("a new user is looked at again after %s, and its status is %+v", wait, w.read("alice").Status)
	}
	clock.SetTime(clock.Now().Add(unattended.Patience))
	report()
	w.wantSaid("alice", condition.NotReady, unattended.Reason, "Switch on that of Kafka my-cluster")
	if report(); len(told.Events) != 1 {
		t.Errorf("%d events tell of it, want one", len(told.Events))
	}

	w.reconcile("alice")
	w.wantUserReady("alice")
	if report(); len(w.read("alice").Status.Conditions) != 1 {
		t.Errorf("the conditions are %+v", w.read("alice").Status.Conditions)
	}
}

// meanwhile is an API server to which another client writes after each read.
type meanwhile struct {
	client.Client

	writes func()
}

func (m meanwhile) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := m.Client.Get(ctx, key, object, options...)
	m.writes()
	return err
}

func TestAnOperatorThatStartsAtTheSameMomentKeepsItsStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	clock := clocktesting.NewFakePassiveClock(w.read("alice").CreationTimestamp.Add(unattended.Patience))
	live := meanwhile{w.person, func() { w.reconcile("alice") }}
	reporter := controller.New(model.Unattended(), controller.Options{Client: w.person, Live: live, Events: events.NewFakeRecorder(1), Clock: clock})

	_, err := reporter.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.read("alice"))})

	if !apierrors.IsConflict(err) {
		t.Errorf("it ends with %v, want a conflict, so that it is tried again", err)
	}
	w.wantUserReady("alice")
	if secret := w.read("alice").Status.Secret; secret != "alice" {
		t.Errorf("the status names the Secret %q", secret)
	}
}

func TestAUserWithoutALabelIsToldWhichOneItLacks(t *testing.T) {
	t.Parallel()
	said := model.Unattended().Message(&kafkav1.KafkaUser{})
	if !strings.Contains(said, "no label strimzi.io/cluster") {
		t.Errorf("it is said %q", said)
	}
}
