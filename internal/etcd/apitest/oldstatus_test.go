package apitest

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func (w *world) names(mode string) model.Names {
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	switch mode {
	case "static":
		names.Mode = model.Static
	case "insecure":
		names.Mode = model.Insecure
	}
	return names
}

// A cluster that was restored loses its status.
func TestARestoreThatWasCarriedOutIsNotSaidToBeSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(1, fromVolume()))
	w.createBackupClaim()
	for range 20 {
		_, _ = w.try()
		w.play()
		w.restores(0, succeeded())
	}
	if w.status().Restored == nil {
		t.Fatalf("not restored: %+v", w.condition("Ready"))
	}
	w.forgetStatus()
	w.restart()
	w.turns()
	if w.told("RestoreSkipped") {
		t.Errorf("an event says that the restore was skipped; FieldsIgnored %+v, Restored %+v", w.condition(etcdv1beta2.ConditionFieldsIgnored), w.status().Restored)
	}
}

// A status of another day, as a tool that restores objects with their status writes it, or an operator that was stopped for a minute.
func TestAnOldStatusCostsNoData(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		for data, keep := range map[string]func(etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec{"in pods": inPods, "on claims": onClaims} {
			t.Run(mode+" "+data, func(t *testing.T) {
				t.Parallel()
				w := begun(t, keep(of(3)))
				old := w.cluster().Status.DeepCopy()
				w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
				for range 80 {
					_, _ = w.try()
					w.play()
				}
				if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
					t.Fatalf("Ready is %+v", ready)
				}
				before := w.podUIDs()
				stored := w.cluster()
				stored.Status = *old
				if err := w.person.Status().Update(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
				least := 3
				for range 12 {
					_, _ = w.try()
					if n := len(w.podUIDs()); n < least {
						least = n
					}
				}
				t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
				if after := w.podUIDs(); !maps.Equal(before, after) {
					t.Errorf("pods %v become %v, at one moment %d ran", before, after, least)
				}
			})
		}
	}
}

// stalled is a client whose first status waits for what another operator does meanwhile.
type stalled struct {
	client.Client

	meanwhile func()
}

func (s *stalled) Status() client.SubResourceWriter { return stalledStatus{s.Client.Status(), s} }

type stalledStatus struct {
	client.SubResourceWriter

	of *stalled
}

func (s stalledStatus) Apply(ctx context.Context, object runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if do := s.of.meanwhile; do != nil {
		s.of.meanwhile = nil
		do()
	}
	return s.SubResourceWriter.Apply(ctx, object, opts...)
}

// Two operators: the first is stopped before it writes the status, and continues after the second has led for a while.
func TestAnOperatorThatWasStoppedDoesNotWriteAnOldStatus(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
			var before map[string]types.UID
			slow := &stalled{Client: w.asOperator, meanwhile: func() {
				w.restart()
				for range 80 {
					_, _ = w.try()
					w.play()
				}
				before = w.podUIDs()
			}}
			operator := w.asOperator
			w.asOperator = slow
			w.restart()
			first := w.operator
			w.asOperator = operator
			_, _ = first.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster())})
			if before == nil {
				t.Fatal("the first operator wrote no status")
			}
			w.restart()
			for range 12 {
				_, _ = w.try()
			}
			t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if after := w.podUIDs(); !maps.Equal(before, after) {
				t.Errorf("pods with data %v become %v", before, after)
			}
			if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
				t.Errorf("the cluster does not come back by itself: %+v", ready)
			}
		})
	}
}

// A crash after each write of a takeover after the status was lost.
func TestACrashAfterEachWriteOfATakeoverCostsNothing(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		for data, keep := range map[string]func(etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec{"in pods": inPods, "on claims": onClaims} {
			t.Run(mode+" "+data, func(t *testing.T) {
				t.Parallel()
				w := begun(t, keep(of(3)))
				before, ids := w.podUIDs(), w.ids()
				w.clock.SetTime(w.clock.Now().Add(-10 * time.Minute)) // and a clock that is late
				w.forgetStatus()
				for range 30 {
					w.restart()
					w.writer.CrashAt = 2
					_, _ = w.try()
				}
				w.restart()
				w.bring()
				if !maps.Equal(w.podUIDs(), before) || !maps.Equal(w.ids(), ids) {
					t.Errorf("pods %v become %v, members %v become %v", before, w.podUIDs(), ids, w.ids())
				}
			})
		}
	}
}

// The status is lost and etcd does not answer for a while, or what is left is of another spec: the pods have the only data.
func TestABudgetProtectsPodsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the status is lost, and etcd does not answer": func(w *world) {
			w.forgetStatus()
			w.restart()
			w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
				return nil, errors.New("nothing answers")
			}
		},
		"another spec": func(w *world) {
			w.leave()
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(3)})
			w.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			lose(w)
			w.turns()
			budget := &policyv1.PodDisruptionBudget{}
			w.get(cluster, budget)
			t.Logf("Ready is %s: %.120s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if pods := len(w.podUIDs()); budget.Spec.MinAvailable.IntValue() < 2 {
				t.Errorf("%d pods have the only data, and the budget keeps %d", pods, budget.Spec.MinAvailable.IntValue())
			}
		})
	}
}
