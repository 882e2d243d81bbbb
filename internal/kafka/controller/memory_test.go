package controller

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// remember lets the operator remember of a Kafka all that it can.
func remember(r *Reconciler, name types.NamespacedName, kafka types.UID) {
	r.meet(name, kafka)
	r.agents.Track(name, []reports.Target[publication.Report]{{UID: kafka}})
	r.surveys.Track(name, []reports.Target[survey.Answers]{{UID: kafka}})
	r.named.Refer(name, []string{string(kafka)})
	r.appliers.Of(kafka)
	r.followers.Of(kafka)
	r.records.Latest(kafka, rotation.Record{Words: authorities.Words(), Domain: string(authorities.Cluster)}, trust.Plan{})
	r.records.Restarted(kafka, time.Second)
	r.metrics.Note(name, metrics.Figures{})
	r.metrics.Told(name, nil)
}

func TestNothingIsRememberedOfAKafkaThatIsGone(t *testing.T) {
	t.Parallel()
	name := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("kafka-%d", i)}
	}
	r := New(Options{Metrics: metrics.New(), Clock: clocktesting.NewFakePassiveClock(noon())})
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
	r := New(Options{Metrics: metrics.New(), Clock: clocktesting.NewFakePassiveClock(noon())})
	remember(r, name, "first")
	one := r.Remembered()
	for i := range 1000 {
		remember(r, name, types.UID(fmt.Sprintf("uid-%d", i)))
	}
	if got := r.Remembered(); got != one {
		t.Errorf("%d things are remembered of the last one, want %d", got, one)
	}
}
