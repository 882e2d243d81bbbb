package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	agentclient "github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/podset"
)

// clusterName is the Kafka of every test.
const clusterName = "my"

// start is when every test begins.
func start() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

// world is one namespace with an operator and everything the operator acts on.
type world struct {
	t         *testing.T
	namespace string
	// api is a person's client; writes of the operator go through faulty.
	api    client.Client
	faulty *faultyClient
	clock  *clocktesting.FakePassiveClock
	kafka  *adminfake.Cluster
	events *eventLog
	// metrics is what a scraper of the operator sees.
	metrics *controller.Metrics
	// loaded is what the server in each pod loaded when it started.
	loaded map[types.UID]contract.TLSReport
	// ran are the names of the pods whose servers have run.
	ran map[string]bool
	// stuck are the pods whose servers crash again and again.
	stuck map[types.UID]bool
	// silent pods run, but their agents do not answer.
	silent map[string]bool
	// fatal is a line of the configuration that no server survives.
	fatal string
	// ahead is how much the operator's clock is before everybody else's.
	ahead    time.Duration
	settings model.Settings
	stores   authority.StoreGeneration

	reconciler *controller.Reconciler
	podSets    *podset.Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api := connect(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kafka-"}}
	if err := api.person.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, namespace: namespace.Name, api: api.person,
		clock:  clocktesting.NewFakePassiveClock(start()),
		events: &eventLog{}, loaded: map[types.UID]contract.TLSReport{},
		ran: map[string]bool{}, stuck: map[types.UID]bool{}, silent: map[string]bool{},
		settings: model.Settings{
			Versions:   []model.KafkaVersion{{Name: "4.2.1", Image: "kafka:4.2.1"}, {Name: "4.3.1", Image: "kafka:4.3.1"}},
			AgentImage: "keyturn:test",
		},
		stores: authority.WithStores,
	}
	w.kafka = adminfake.New("cluster", w.clock.Now)
	w.kafka.SetMetadataVersion(model.MetadataVersion("4.3-IV0").Level(), model.MetadataVersion("4.3-IV0").Level())
	w.faulty = &faultyClient{Client: api.operator, deleted: w.deleted}
	w.startOperator()
	return w
}

// startOperator starts an operator that remembers nothing, as after a crash.
func (w *world) startOperator() {
	w.metrics = controller.NewMetrics()
	w.reconciler = w.newReconciler(w.faulty)
	w.podSets = podset.NewReconciler(w.faulty, w.faulty, w.api.Scheme(), w.clock)
}

// newReconciler makes one that reads from cached.
func (w *world) newReconciler(cached client.Client) *controller.Reconciler {
	return controller.New(controller.Options{
		Client: cached, Live: w.faulty, Events: w.events, Clock: shiftedClock{w},
		Metrics: w.metrics, Connector: connector{w}, Settings: w.settings, Stores: w.stores, Version: "test",
	})
}

// shiftedClock is the operator's clock.
type shiftedClock struct{ w *world }

func (c shiftedClock) Now() time.Time                  { return c.w.clock.Now().Add(c.w.ahead) }
func (c shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// errStuck says that the world does not come to rest.
var errStuck = errors.New("the cluster does not come to rest")

// maxRounds is far more than any scenario needs to come to rest.
const maxRounds = 150

// settle lets operator, kubelet and Kafka work until a whole round changes
// nothing and nobody wants to look again soon.
func (w *world) settle() {
	w.t.Helper()
	if err := w.trySettle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) trySettle(ctx context.Context) error {
	for range maxRounds {
		before := w.faulty.writes
		result, err := w.round(ctx)
		if err != nil {
			return err
		}
		changed := w.runKubelet(ctx)
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		if !changed && w.faulty.writes == before && (result.RequeueAfter == 0 || result.RequeueAfter > time.Minute) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", errStuck, w.status(ctx))
}

// run lets everybody work for some rounds, whether anything comes to rest or not.
func (w *world) run(rounds int) {
	w.t.Helper()
	for range rounds {
		if _, err := w.round(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		w.runKubelet(w.t.Context())
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
}

// round is one pass of each controller.
func (w *world) round(ctx context.Context) (ctrl.Result, error) {
	result, err := w.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: w.key(clusterName)})
	if err != nil {
		return result, err
	}
	return result, w.keepPods(ctx)
}

// keepPods is one pass of the pod set controller over each set.
func (w *world) keepPods(ctx context.Context) error {
	sets, err := w.sets(ctx)
	if err != nil {
		return err
	}
	for i := range sets {
		if _, err := w.podSets.Reconcile(ctx, &sets[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) sets(ctx context.Context) ([]podsetv1.StrimziPodSet, error) {
	var sets podsetv1.StrimziPodSetList
	err := w.api.List(ctx, &sets, client.InNamespace(w.namespace))
	return sets.Items, err
}

func (w *world) status(ctx context.Context) string {
	var kafka kafkav1.Kafka
	if err := w.api.Get(ctx, w.key(clusterName), &kafka); err != nil {
		return err.Error()
	}
	text, err := json.Marshal(kafka.Status.Conditions)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// connector leads the operator to the world's Kafka and agents.
type connector struct{ w *world }

func (c connector) Admin(controller.Access) (admin.Client, error) { return c.w.kafka.Client(), nil }

func (c connector) Agents(controller.Access) controller.Agents { return agents(c) }

type agents struct{ w *world }

var errSilent = errors.New("no agent answers there")

func (a agents) find(ctx context.Context, node agentclient.Node) (contract.TLSReport, error) {
	name, _, _ := strings.Cut(node.Name, ".")
	var pod corev1.Pod
	if err := a.w.api.Get(ctx, a.w.key(name), &pod); err != nil {
		return contract.TLSReport{}, err
	}
	report, running := a.w.loaded[pod.UID]
	if !running || a.w.silent[name] {
		return contract.TLSReport{}, errSilent
	}
	return report, nil
}

func (a agents) TLS(ctx context.Context, node agentclient.Node) (contract.TLSReport, error) {
	return a.find(ctx, node)
}

func (a agents) BrokerState(ctx context.Context, node agentclient.Node) (contract.BrokerState, error) {
	if _, err := a.find(ctx, node); err != nil {
		return contract.BrokerState{}, err
	}
	return contract.BrokerState{State: contract.StateRunning}, nil
}

// eventLog keeps the reasons of events.
type eventLog struct{ reasons []string }

// Eventf notes an event.
func (l *eventLog) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	l.reasons = append(l.reasons, reason)
}
