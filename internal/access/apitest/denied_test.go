package apitest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// limited is an operator whose rights the test grants and takes away, and what it has observed of its watches.
type limited struct {
	*world
	*chartstest.Limited

	clock    *clocktesting.FakeClock
	observer *watches.Observer
}

// newLimited is one that runs with all its rights but for these verbs on a resource.
func newLimited(t *testing.T, resource string, without ...string) *limited {
	t.Helper()
	w := newWorld(t)
	w.cluster()
	l := &limited{
		world: w, clock: clocktesting.NewFakeClock(time.Now()),
		Limited: chartstest.Limit(t, w.person, apiServer, filepath.Join("..", "..", ".."), chartstest.AccessOperator, "limited-"+w.namespace),
	}
	l.Allow(resource, without...)
	l.observer = watches.NewObserver(l.clock)
	l.runAs(l.Config, l.observer)
	l.access("my-user", nil)
	return l
}

// pass lets time pass for the observer until something holds, a little with each look.
func (l *limited) pass(what string, holds func() bool) {
	l.t.Helper()
	l.await(what, func() bool {
		l.Pass(l.clock)
		return holds()
	})
}

func (l *limited) notReady(text string) bool {
	err := l.observer.Ready(nil)
	return err != nil && strings.Contains(err.Error(), text)
}

func TestARightThatIsMissingAtTheStartIsNamed(t *testing.T) {
	t.Parallel()
	for resource, verbs := range map[string][]string{
		"kafkas": {"get", "list", "watch"}, "secrets": {"list", "watch"},
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, resource, verbs...)
			l.pass("the KafkaAccess says so", func() bool { return l.reason("my-app") == "Forbidden" && l.readyMessage(resource) })
			l.pass("the process is not ready", func() bool { return l.notReady(resource) })
			l.Allow("")
			l.pass("the KafkaAccess is bound, without a restart", func() bool { return l.reason("my-app") == "Bound" })
			l.pass("the process is ready", func() bool { return l.observer.Ready(nil) == nil })
		})
	}
}

func TestARightThatIsTakenAwayIsNamed(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"kafkas", "kafkaaccesses"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t, "")
			l.awaitReason("Bound")
			l.await("it is watched", func() bool { return l.Watches(resource) })
			l.Allow(resource, "list", "watch")
			l.pass("the KafkaAccess says so", func() bool {
				return l.reason("my-app") == "Forbidden" && l.readyMessage("the verbs list and watch on "+resource)
			})
			if !l.notReady(resource) {
				t.Error("the process is ready")
			}
			kafka := &kafkav1.Kafka{}
			l.get("my-cluster", kafka)
			kafka.Status.Listeners[1].BootstrapServers = "elsewhere:9093"
			l.report(kafka)
			l.awaitData("bootstrap.servers", "elsewhere:9093")
			l.Allow("")
			l.pass("the KafkaAccess is bound", func() bool { return l.reason("my-app") == "Bound" })
		})
	}
}

func TestAProblemThatNoEventEndsIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	l := newLimited(t, "kafkas", "list", "watch")
	l.pass("the watch is denied", func() bool { return l.reason("my-app") == "Forbidden" })
	l.delete("my-cluster", &kafkav1.Kafka{})
	l.awaitReason("MissingKubernetesResource")
	l.kafka("my-cluster")
	l.awaitReason("Forbidden")
}
