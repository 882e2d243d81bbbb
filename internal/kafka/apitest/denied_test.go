package apitest

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// limited is a cluster whose operator runs as its process does, with rights that the test grants and takes away.
type limited struct {
	*world
	*chartstest.Limited

	time     *clocktesting.FakeClock
	operator *controller.Reconciler
}

// newLimited has a cluster that is ready, and whose operator has all its rights.
func newLimited(t *testing.T) *limited {
	t.Helper()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	l := &limited{
		world: w, time: clocktesting.NewFakeClock(time.Now()),
		Limited: chartstest.Limit(t, shared.person, apiServer, filepath.Join("..", "..", ".."), chartstest.ClusterWide, "limited-"+w.namespace),
	}
	l.Allow("")
	l.runOperator(watches.NewObserver(l.time))
	return l
}

func (l *limited) runOperator(observer *watches.Observer) {
	l.t.Helper()
	mgr, err := watches.NewManager(l.Config, &ctrl.Options{
		Scheme: newScheme(l.t), Cache: controller.CacheOptions([]string{l.namespace}), Client: controller.ClientOptions(), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)},
	}, observer)
	if err != nil {
		l.t.Fatal(err)
	}
	options := l.options(mgr.GetClient(), mgr.GetAPIReader())
	options.Watches = observer
	l.operator = controller.New(options)
	if err := l.operator.SetupWithManager(mgr); err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	l.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
}

// await lets time pass for the observer until something holds, a little with each look.
func (l *limited) await(what string, holds func() bool) {
	l.t.Helper()
	err := wait.PollUntilContextTimeout(l.t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		l.Pass(l.time)
		return holds(), nil
	})
	if err != nil {
		l.t.Fatalf("waiting until %s: %v; the conditions are %s", what, err, l.status(l.t.Context()))
	}
}

// current is the Kafka as it is stored.
func (l *limited) current() *kafkav1.Kafka {
	l.t.Helper()
	kafka := &kafkav1.Kafka{}
	if err := shared.person.Get(l.t.Context(), l.key(clusterName), kafka); err != nil {
		l.t.Fatal(err)
	}
	return kafka
}

func warnings(kafka *kafkav1.Kafka, reason string) []string {
	var messages []string
	for _, c := range kafka.Status.Conditions {
		if c.Type == condition.Warning && c.Reason == reason {
			messages = append(messages, c.Message)
		}
	}
	return messages
}

func isReady(kafka *kafkav1.Kafka) bool {
	return slices.ContainsFunc(kafka.Status.Conditions, func(c condition.Condition) bool { return c.Type == condition.Ready })
}

func TestAWatchThatIsDeniedIsAWarningOfAKafkaThatServes(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"kafkas", "persistentvolumeclaims"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			l.await("it is watched", func() bool { return l.Watches(resource) })
			l.Allow(resource, "list", "watch")
			l.await("the Kafka warns of it", func() bool {
				told := warnings(l.current(), "WatchDenied")
				return len(told) == 1 && strings.Contains(told[0], "Grant its ServiceAccount the verbs list and watch on "+resource)
			})
			before := l.current()
			if !isReady(before) {
				t.Errorf("the Kafka is not ready: %+v", before.Status.Conditions)
			}
			result, err := l.operator.Reconcile(t.Context(), ctrl.Request{NamespacedName: l.key(clusterName)})
			if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > 30*time.Second {
				t.Errorf("the next look is after %s: %v", result.RequeueAfter, err)
			}
			if after := l.current(); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the Kafka is written again: %+v", after.Status.Conditions)
			}
			l.Allow("")
			l.await("the warning is gone", func() bool { return len(warnings(l.current(), "WatchDenied")) == 0 })
		})
	}
}
