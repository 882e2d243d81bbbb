package apitest

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/unattended"
	"github.com/keyturn/keyturn/internal/user/model"
)

func TestAUserWithoutAnOperatorSaysSoUntilOneStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	clock := clocktesting.NewFakePassiveClock(w.read("alice").CreationTimestamp.Time)
	told := events.NewFakeRecorder(10)
	reporter := unattended.New(model.Unattended(), unattended.Options{Client: w.person, Live: w.person, Events: told, Clock: clock})
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

func TestAUserWithoutALabelIsToldWhichOneItLacks(t *testing.T) {
	t.Parallel()
	said := model.Unattended().Message(&kafkav1.KafkaUser{})
	if !strings.Contains(said, "no label strimzi.io/cluster") {
		t.Errorf("it is said %q", said)
	}
}
