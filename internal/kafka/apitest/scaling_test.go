package apitest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Nodes that go: not before they are empty, one by one, and with all they leave.

// claims is storage whose claims go with their node, or stay.
func claims(deleted bool) kafkav1.Storage {
	return kafkav1.Storage{Type: kafkav1.StoragePersistentClaim, Volume: kafkav1.Volume{Size: "1Gi", DeleteClaim: &deleted}}
}

// extraBrokers is a cluster with a pool of two brokers, the ids 3 and 4, beside
// three nodes of both roles.
func (w *world) extraBrokers(storage kafkav1.Storage) {
	w.t.Helper()
	w.dualRole(3)
	w.settle()
	extra := poolResource(w.namespace, "extra", 2, kafkav1.RoleBroker)
	extra.Spec.Storage = storage
	w.create(extra)
	w.settle()
}

func TestABrokerThatHoldsAPartitionIsNotTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 4)

	w.scale("extra", 1)
	w.run(5)

	w.wantReason(rollingUpdate, "Blocked", "my-extra-4", "topic orders partition 0")
	if len(w.faulty.podsDeleted) > 0 || w.missing(&corev1.Pod{}, "my-extra-4") {
		t.Errorf("%v were taken away", w.faulty.podsDeleted)
	}
	if acts := w.kafka.Acts(); len(acts) > 0 {
		t.Errorf("acts are %v, want none", acts)
	}
}

func TestABrokerThatIsEmptyGoesByItselfWithAllThatWasItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 4)
	w.scale("extra", 1)
	w.run(5)

	w.kafka.Reassign("orders", 0, 0, 1, 2)
	w.settle()

	if !slices.Equal(w.faulty.podsDeleted, []string{"my-extra-4"}) {
		t.Errorf("deleted: %v, want the one broker", w.faulty.podsDeleted)
	}
	if want := []string{"unregister broker 4"}; !slices.Equal(w.kafka.Acts(), want) {
		t.Errorf("acts are %v, want %v", w.kafka.Acts(), want)
	}
	for pod, gone := range map[string]bool{"my-extra-3": false, "my-extra-4": true} {
		for what, object := range map[string]client.Object{
			pod: &corev1.Pod{}, "Secret " + pod: &corev1.Secret{}, "ConfigMap " + pod: &corev1.ConfigMap{},
			"data-" + pod: &corev1.PersistentVolumeClaim{},
		} {
			name := what[strings.LastIndexByte(what, ' ')+1:]
			if w.missing(object, name) != gone {
				t.Errorf("%T %s is gone: %t, want %t", object, name, !gone, gone)
			}
		}
	}
	if !has(w.getKafka(), condition.Ready) || has(w.getKafka(), rollingUpdate) {
		t.Errorf("conditions are %+v, want Ready alone", w.getKafka().Status.Conditions)
	}
}

func TestClaimsStayUnlessTheyAreToGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(false))

	w.scale("extra", 1)
	w.settle()

	if w.missing(&corev1.PersistentVolumeClaim{}, "data-my-extra-4") {
		t.Error("the claim of the broker that went is gone")
	}
	if !w.missing(&corev1.Secret{}, "my-extra-4") {
		t.Error("the Secret of the broker that went is still there")
	}
}

func TestWhoeverTakesTheLossUponThemselvesNeedNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 4)
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/skip-broker-scaledown-check": "true"})

	w.scale("extra", 1)
	w.settle()

	if !slices.Equal(w.faulty.podsDeleted, []string{"my-extra-4"}) {
		t.Errorf("deleted: %v, want the one broker", w.faulty.podsDeleted)
	}
}

func TestTheNodesOfADeletedPoolLeaveOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 3)

	w.delete(&kafkav1.KafkaNodePool{}, "extra")
	w.run(15)

	if !slices.Equal(w.faulty.podsDeleted, []string{"my-extra-4"}) {
		t.Errorf("deleted: %v, want the empty broker alone", w.faulty.podsDeleted)
	}
	w.wantReason(rollingUpdate, "Blocked", "my-extra-3", "topic orders partition 0")

	w.kafka.Reassign("orders", 0, 0, 1, 2)
	w.settle()

	if want := []string{"my-extra-4", "my-extra-3"}; !slices.Equal(w.faulty.podsDeleted, want) {
		t.Errorf("deleted: %v, want %v", w.faulty.podsDeleted, want)
	}
	if !w.missing(&podsetv1.StrimziPodSet{}, "my-extra") {
		t.Error("the pod set of the pool is still there")
	}
	if len(w.podUIDs()) != 3 {
		t.Errorf("pods are %v, want the three of the other pool", w.podUIDs())
	}
}

func TestAPoolThatIsRetiringIsNotRolledByAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 3)
	w.delete(&kafkav1.KafkaNodePool{}, "extra")
	w.run(15)

	w.configure("log.retention.hours", "12")
	w.run(25)

	want := []string{"my-dual-0", "my-dual-1", "my-dual-2", "my-extra-4"}
	if got := slices.Sorted(slices.Values(w.faulty.podsDeleted)); !slices.Equal(got, want) {
		t.Errorf("deleted: %v, want %v", got, want)
	}
}

func TestTwoChangesAtOnceNeverDisruptTwoNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))

	w.scale("extra", 0)
	w.configure("log.retention.hours", "12")
	w.settle()

	// The check of the world sees every deletion; here it is that each happened.
	got := slices.Sorted(slices.Values(w.faulty.podsDeleted))
	if want := fmt.Sprint([]string{"my-dual-0", "my-dual-1", "my-dual-2", "my-extra-3", "my-extra-4"}); fmt.Sprint(got) != want {
		t.Errorf("deleted: %v, want %v", got, want)
	}
}

// missing reports whether an object is gone or going: nobody here takes the
// finalizers off claims.
func (w *world) missing(object client.Object, name string) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), w.key(name), object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err != nil || object.GetDeletionTimestamp() != nil
}
