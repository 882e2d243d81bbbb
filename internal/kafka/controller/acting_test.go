package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// stuck is a Kafka that says what it is and then does nothing that it is asked to.
type stuck struct {
	deaf

	acts *int
}

func (s stuck) Admin(Access) (admin.Client, error) { return s, nil }

func (s stuck) Features(context.Context) (admin.Features, error) {
	return admin.Features{MetadataVersion: release.MetadataVersion("4.2-IV1").Level()}, nil
}

func (s stuck) UnregisterBroker(ctx context.Context, _ int32) error { return s.hang(ctx) }

func (s stuck) UpdateMetadataVersion(ctx context.Context, _ int16) error { return s.hang(ctx) }

func (s stuck) hang(ctx context.Context) error {
	*s.acts++
	<-ctx.Done()
	return ctx.Err()
}

func TestWhatKafkaIsToldToDoIsBoundedLikeAQuestion(t *testing.T) {
	t.Parallel()
	removed := disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}}
	for name, do := range map[string]func(ctx context.Context, r *Reconciler, p *pass) error{
		"to forget a broker": func(ctx context.Context, r *Reconciler, p *pass) error {
			return r.forgetRemoved(ctx, p, removed)
		},
		"to raise its metadata version": func(ctx context.Context, r *Reconciler, p *pass) error {
			err := r.followVersion(ctx, p, &outcome{})
			if len(p.notes) != 1 || p.notes[0].Reason != model.ReasonMetadataVersion {
				t.Errorf("it is said: %v", p.notes)
			}
			return errors.Join(err, errNotAsked)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				acts := 0
				r := New(Options{Connector: stuck{acts: &acts}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
				p := passBehindItsVersion()
				p.visit = r.asking.visit(p.kafka.UID)
				p.visit.waited = askingTime - time.Second
				began := time.Now()

				err := do(t.Context(), r, p)

				if took := time.Since(began); err == nil || took != askingTime || acts != 1 {
					t.Errorf("it was waited for %s, want %s; told %d times, %v", took, askingTime, acts, err)
				}
				if !p.became.spared() || r.asking.failure(p.kafka.UID, brokers) == nil {
					t.Error("nobody remembers that it was waited for in vain")
				}
			})
		})
	}
}

func TestASilentKafkaIsToldNothingWhileThereIsNoPlaceToWaitForIt(t *testing.T) {
	t.Parallel()
	acts := 0
	r := New(Options{Connector: stuck{acts: &acts}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
	p := passOf(smallKafka(), nil)
	silentBefore(r.asking, p.kafka.UID, []question{p.kafkaQuestion(brokers, nil)})
	r.asking.places.taken = r.asking.places.room

	err := r.forgetRemoved(t.Context(), p, disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}})

	if !errors.Is(err, context.DeadlineExceeded) || acts != 0 {
		t.Errorf("it was told %d times, %v", acts, err)
	}
}

// willing is a Kafka that does at once what it is told.
type willing struct{ stuck }

func (w willing) Admin(Access) (admin.Client, error) { return w, nil }

func (w willing) UnregisterBroker(context.Context, int32) error {
	*w.acts++
	return nil
}

func TestAKafkaThatIsPromptForgetsABrokerThoughOthersHaveAllPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		acts := 0
		r := New(Options{Connector: willing{stuck{acts: &acts}}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
		p := passOf(smallKafka(), nil)
		if got := r.put(t.Context(), p, worthwhile, []question{p.kafkaQuestion(brokers, prompt)}); got[0] != answered {
			t.Fatal(got)
		}
		r.asking.places.taken = r.asking.places.room

		err := r.forgetRemoved(t.Context(), p, disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}})

		if err != nil || acts != 1 {
			t.Errorf("it was told %d times, and the pass fails: %v", acts, err)
		}
	})
}

// Neither may the cluster be NotReady for it, nor may the record of the removal be cleared.
func TestAnActIsPutOffWhileThereIsNoPlaceForWhatComesBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		acts := 0
		r := New(Options{Connector: stuck{acts: &acts}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
		p := passOf(smallKafka(), nil)
		r.asking.places.taken = r.asking.places.room
		next := consideration{decided: rollout.Decision{Act: &rollout.Act{Kind: rollout.Remove, UID: "8", PodName: "my-dual-8"}}}

		failure := r.carryOut(t.Context(), p, disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}}, next.decided)
		result, err := r.unlessPutOff(p, next, outcome{disrupted: "my-dual-8"}, failure)

		if !errors.Is(failure, errNotAsked) || err != nil || result.again == 0 || result.disrupted != "" || acts != 1 {
			t.Errorf("it was told %d times and %v; the pass ends with %+v, %v", acts, failure, result, err)
		}
	})
}

// passBehindItsVersion is a pass over a Kafka whose pods run, and whose metadata version is to
// be raised to theirs.
func passBehindItsVersion() *pass {
	p := passOf(smallKafka(), map[string]*corev1.Pod{})
	p.cluster.Metadata.Desired = "4.3-IV0"
	for _, node := range p.cluster.Nodes {
		pod := readyPod(node.Pod)
		pod.Annotations = map[string]string{model.KafkaVersionAnnotation: "4.3.0"}
		p.pods[node.Pod] = pod
	}
	return p
}

func TestWhatKafkaWasNotToldToDoDoesNotCountAsDone(t *testing.T) {
	t.Parallel()
	acts := 0
	r := New(Options{Connector: stuck{acts: &acts}, Clock: clock.RealClock{}, Metrics: NewMetrics()})
	r.asking.places.taken = r.asking.places.room
	p := passBehindItsVersion()

	if err := r.followVersion(t.Context(), p, &outcome{}); err != nil || len(p.notes) != 1 {
		t.Errorf("it is said: %v, %v", p.notes, err)
	}
	if version := p.kafka.Status.KafkaMetadataVersion; version != "" {
		t.Errorf("the status says that the metadata version is %s", version)
	}
	err := r.forgetRemoved(t.Context(), p, disruptionRecord{Kind: rollout.Remove, Disruption: &disruption{Node: 9, UID: "9"}})
	if !errors.Is(err, errNotAsked) || acts != 1 {
		t.Errorf("it was told %d times, and the broker counts as forgotten: %v", acts, err)
	}
}
