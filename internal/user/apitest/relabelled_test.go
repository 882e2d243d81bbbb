package apitest

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
)

func (w *world) isUserReady(name string) bool { return isReady(w.status(name)) }

// secondKafka creates another Kafka of the namespace with its clients CA.
func (w *world) secondKafka() {
	w.t.Helper()
	first := &kafkav1.Kafka{}
	if err := w.person.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: cluster}, first); err != nil {
		w.t.Fatal(err)
	}
	w.create(&kafkav1.Kafka{ObjectMeta: w.meta("second"), Spec: first.Spec})
	for _, suffix := range []string{"-clients-ca", "-clients-ca-cert"} {
		w.put("second"+suffix, w.stored(cluster+suffix).Data)
	}
}

func TestAUserWhoseLabelNamesAClusterWithoutAUserOperatorIsNotReady(t *testing.T) {
	t.Parallel()
	for user, spec := range map[string]kafkav1.KafkaUserSpec{"with ACLs": reads(scram()), "with a certificate alone": tls()} {
		for to, label := range map[string]string{"a cluster that does not exist": `"typo"`, "one without a user operator": `"second"`, "none": "null"} {
			t.Run("a user "+user+", "+to, func(t *testing.T) {
				t.Parallel()
				w := realTime(t)
				w.secondKafka()
				w.run(&traffic{})
				w.user("alice", spec)
				w.until("the user is ready", func() bool { return w.isUserReady("alice") })
				w.relabel("alice", label)
				w.until("it is not", func() bool { return !w.isUserReady("alice") })
				w.wantSaid("alice", condition.NotReady, "ClusterLabelChanged", "my-cluster")
				w.until("it is let go", func() bool { return !w.isKept("alice") && len(w.kafka.Names()) == 0 })
				w.relabel("alice", `"`+cluster+`"`)
				w.until("it is ready again", func() bool { return w.isUserReady("alice") })
			})
		}
	}
}

// The former operator may say that the user has left after the next one has taken it.
func TestAUserThatMovesToAClusterWithAUserOperatorEndsReady(t *testing.T) {
	t.Parallel()
	w := realTime(t)
	w.secondKafka()
	kafka := adminfake.NewUsers()
	w.startFor("second", kafka, &traffic{}, func(*ctrl.Options) {})
	_, end := w.start(&traffic{}, func(*ctrl.Options) {})
	w.user("alice", reads(scram()))
	w.until("the user is ready", func() bool { return w.isUserReady("alice") })
	end()
	w.relabel("alice", `"second"`)
	w.until("the next operator has it", func() bool { return slices.Equal(kafka.Names(), []string{"alice"}) && w.isUserReady("alice") })
	w.run(&traffic{})
	w.until("the former one has let it go", func() bool {
		return slices.Equal(w.read("alice").Finalizers, []string{"second.keyturn.dev/kafka-user"}) && w.isUserReady("alice")
	})
	user := w.read("alice")
	user.Status.Conditions[0].Type, user.Status.Conditions[0].Reason = condition.NotReady, "ClusterLabelChanged"
	if err := w.person.Status().Update(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	w.until("a late report of the former one is corrected", func() bool { return w.isUserReady("alice") })
}
