package controller

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// remember lets the operator remember of a Kafka all that it can.
func remember(r *Reconciler, name types.NamespacedName, kafka types.UID) {
	r.meet(name, kafka)
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("%s-pod-%d", kafka, i))}}
		r.witnesses.record(pod, testimony{known: true, kafka: kafka})
	}
	r.asking.note(kafka, question{of: brokers}, inTime)
	for found := true; found; { // whoever finds no place is given a ticket
		found = r.asking.visit(kafka).stay()
	}
	r.named.Refer(name, []string{string(kafka)})
	r.appliers.Of(kafka)
	r.followers.Of(kafka)
	r.records.Latest(kafka, rotation.Record{Words: authorities.Words(), Domain: string(authorities.Cluster)}, trust.Plan{})
	r.records.Restarted(kafka, time.Second)
	r.settled.note(kafka, "1")
	r.races.lost(kafka)
	r.steps.begun(kafka, authorities.Cluster, []trust.Step{{Kind: trust.Distribute}})
	r.metrics.clusters[name] = figures{}
	r.metrics.told(name, nil)
}

func TestNothingIsRememberedOfAKafkaThatIsGone(t *testing.T) {
	t.Parallel()
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("kafka-%d", i)}
	}
	r := New(Options{Metrics: NewMetrics(), Clock: clocktesting.NewFakePassiveClock(noon())})
	remember(r, name(0), "stays")
	one := r.Remembered()
	for i := 1; i <= 1000; i++ {
		remember(r, name(i), types.UID(fmt.Sprintf("uid-%d", i)))
	}
	if got, want := r.Remembered(), 1001*one; got != want {
		t.Fatalf("%d things are remembered of 1,001 Kafkas, want %d", got, want)
	}
	for i := 1; i <= 1000; i++ {
		r.leave(name(i))
	}
	if got := r.Remembered(); got != one {
		t.Errorf("%d things are remembered of one Kafka, want %d", got, one)
	}
}

func TestNothingIsRememberedOfAKafkaThatAnotherOfItsNameHasFollowed(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "ns", Name: "my"}
	r := New(Options{Metrics: NewMetrics(), Clock: clocktesting.NewFakePassiveClock(noon())})
	remember(r, name, "first")
	one := r.Remembered()
	for i := range 1000 {
		remember(r, name, types.UID(fmt.Sprintf("uid-%d", i)))
	}
	if got := r.Remembered(); got != one {
		t.Errorf("%d things are remembered of the last one, want %d", got, one)
	}
}

func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	r := New(Options{Metrics: NewMetrics(), Clock: clocktesting.NewFakePassiveClock(noon())})
	remember(r, types.NamespacedName{Name: "other"}, "other")
	p := passOf(&kafkav1.Kafka{}, nil)
	for i := range 1000 {
		pod := readyPod("a")
		pod.UID = types.UID(fmt.Sprintf("pod-%d", i))
		p.pods = map[string]*corev1.Pod{"a": pod}
		r.witnesses.record(pod, testimony{kafka: p.kafka.UID})
		r.asking.note(p.kafka.UID, agentQuestion(pod, nil), inTime)
		if err := r.hear(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := counted(&r.witnesses.mu, r.witnesses.said), 3+1; got != want {
		t.Errorf("%d pods are remembered, want the one that there is and three of another Kafka", got)
	}
	if got := len(r.asking.standings[p.kafka.UID]); got != 1 {
		t.Errorf("it is remembered of %d pods how they answer, want of the one that there is", got)
	}
}
