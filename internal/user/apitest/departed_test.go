package apitest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/principal"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/user/controller"
)

// relabel has the label of a user name another cluster, or none, which is written null.
func (w *world) relabel(name, to string) {
	w.t.Helper()
	w.patch(&kafkav1.KafkaUser{ObjectMeta: w.meta(name)}, `{"metadata": {"labels": {"strimzi.io/cluster": `+to+`}}}`)
}

// letsOthersGo waits until the cluster operator has seen all that happened before.
func (w *world) letsOthersGo(name string) {
	w.t.Helper()
	w.kept(name, "absent", "absent.keyturn.dev/kafka-user")
	w.until("a user without a Kafka is let go", func() bool { return !w.isKept(name) })
}

// realTime is a world whose clock is the real one.
func realTime(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	return w
}

func TestAUserThatMovesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for user, spec := range map[string]kafkav1.KafkaUserSpec{"with a password": reads(scram()), "without a Secret": reads(external())} {
		for to, label := range map[string]string{"to a cluster that does not exist": `"typo"`, "to none": "null"} {
			t.Run("while no user operator runs, "+user+", "+to, func(t *testing.T) {
				t.Parallel()
				w := realTime(t)
				w.runClusterOperator(apiServer)
				_, end := w.start(&traffic{}, func(*ctrl.Options) {})
				w.user("alice", spec)
				w.until("Kafka holds the user", func() bool { return len(w.kafka.Names()) == 1 })
				end()
				w.relabel("alice", label)
				w.deleteUser("alice")
				w.letsOthersGo("bob")
				w.run(&traffic{})
				w.until("the user is gone", func() bool { return w.isGone("alice") })
				if left := w.kafka.Names(); len(left) > 0 {
					t.Errorf("Kafka holds something for %v", left)
				}
			})
		}
	}
	t.Run("while Kafka does not answer", func(t *testing.T) {
		t.Parallel()
		w := realTime(t)
		w.runClusterOperator(apiServer)
		w.run(&traffic{})
		w.user("alice", reads(scram()))
		w.until("Kafka holds the user", func() bool { return len(w.kafka.Names()) == 1 })
		w.kafka.FailChanges(&admin.UnreachableError{Address: "a", Err: kubetest.ErrCrash})
		w.relabel("alice", `"typo"`)
		w.deleteUser("alice")
		w.letsOthersGo("bob")
		w.kafka.FailChanges(nil)
		w.until("the user is gone", func() bool { return w.isGone("alice") })
		if left := w.kafka.Names(); len(left) > 0 {
			t.Errorf("Kafka holds something for %v", left)
		}
	})
}

func TestAUserThatMovesToAClusterWithAnOperatorIsKeptByBothUntilTheFirstIsCleared(t *testing.T) {
	t.Parallel()
	w := realTime(t)
	first := &kafkav1.Kafka{}
	if err := w.person.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: cluster}, first); err != nil {
		t.Fatal(err)
	}
	w.create(&kafkav1.Kafka{ObjectMeta: w.meta("second"), Spec: first.Spec})
	kafka := adminfake.NewUsers()
	second := controller.New(controller.Options{
		Client: w.person, Live: w.person, Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: w.clock,
		Cluster: types.NamespacedName{Namespace: w.namespace, Name: "second"}, Stores: w.stores, Metrics: controller.NewMetrics(types.NamespacedName{Namespace: w.namespace, Name: "second"}),
		Kafka: kafka, Issuers: w.elsewhere, ReissueRate: reissueRate,
	})
	w.user("alice", reads(scram()))
	w.reconcile("alice")
	w.relabel("alice", `"second"`)
	if _, err := second.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: "alice"}}); err != nil {
		t.Fatal(err)
	}
	both := []string{"my-cluster.keyturn.dev/kafka-user", "second.keyturn.dev/kafka-user"}
	if has := w.read("alice").Finalizers; !slices.Equal(has, both) {
		t.Errorf("finalizers are %v, want %v", has, both)
	}
	w.run(&traffic{})
	w.until("one finalizer is left", func() bool { return slices.Equal(w.read("alice").Finalizers, both[1:]) })
	w.holds("alice", principal.Held{}, principal.Held{})
	if held := kafka.Held("alice"); !held.Equal(withPassword(readsInKafka())) {
		t.Errorf("the second Kafka holds %v", held)
	}
}

func TestAFinalizerThatNamesNoKafkaBecomesThatOfTheLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kept("alice", cluster, "keyturn.dev/kafka-user")
	w.reconcile("alice")
	if has := w.read("alice").Finalizers; !slices.Equal(has, []string{"my-cluster.keyturn.dev/kafka-user"}) {
		t.Errorf("finalizers are %v", has)
	}
}
