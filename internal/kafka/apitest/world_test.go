package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// held pods do not become ready until they are released.
	held     map[string]bool
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
		events: &eventLog{}, loaded: map[types.UID]contract.TLSReport{}, held: map[string]bool{},
		settings: model.Settings{
			Versions:   []model.KafkaVersion{{Name: "4.2.1", Image: "kafka:4.2.1"}, {Name: "4.3.1", Image: "kafka:4.3.1"}},
			AgentImage: "keyturn:test",
		},
		stores: authority.WithStores,
	}
	w.kafka = adminfake.New("cluster", w.clock.Now)
	w.kafka.SetMetadataVersion(model.MetadataVersion("4.3-IV0").Level(), model.MetadataVersion("4.3-IV0").Level())
	w.faulty = &faultyClient{Client: api.operator}
	w.startOperator()
	return w
}

// startOperator starts an operator that remembers nothing, as after a crash.
func (w *world) startOperator() {
	w.metrics = controller.NewMetrics()
	w.reconciler = controller.New(controller.Options{
		Client: w.faulty, Live: w.faulty, Events: w.events, Clock: w.clock,
		Metrics: w.metrics, Connector: connector{w}, Settings: w.settings, Stores: w.stores, Version: "test",
	})
	w.podSets = podset.NewReconciler(w.faulty, w.faulty, w.scheme(), w.clock)
}

func (w *world) scheme() *runtime.Scheme { return w.api.Scheme() }

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

// round is one pass of each controller.
func (w *world) round(ctx context.Context) (ctrl.Result, error) {
	result, err := w.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: w.key(clusterName)})
	if err != nil {
		return result, err
	}
	var sets podsetv1.StrimziPodSetList
	if err := w.api.List(ctx, &sets, client.InNamespace(w.namespace)); err != nil {
		return result, err
	}
	for i := range sets.Items {
		if _, err := w.podSets.Reconcile(ctx, &sets.Items[i]); err != nil {
			return result, err
		}
	}
	return result, nil
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

// runKubelet starts the servers of new pods and notices those that are gone. It
// reports whether anything changed.
func (w *world) runKubelet(ctx context.Context) bool {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	changed := w.stopMissing(&pods)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, started := w.loaded[pod.UID]; started || w.held[pod.Name] || pod.Labels[model.PodLabel] == "" {
			continue
		}
		w.startServer(ctx, pod)
		changed = true
	}
	return changed
}

func (w *world) stopMissing(pods *corev1.PodList) bool {
	changed := false
	for uid, report := range w.loaded {
		alive := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == uid })
		if alive {
			continue
		}
		delete(w.loaded, uid)
		if err := w.kafka.Stop(nodeID(report)); err != nil {
			w.t.Fatal(err)
		}
		changed = true
	}
	return changed
}

// nodeID is kept in the report of a server by a role that no real one has.
func nodeID(report contract.TLSReport) int32 {
	var id int32
	if _, err := fmt.Sscan(report.Roles["node"].Presents, &id); err != nil {
		return -1
	}
	return id
}

// startServer loads what is mounted, as the agent does, and makes the pod ready.
func (w *world) startServer(ctx context.Context, pod *corev1.Pod) {
	var secret corev1.Secret
	var config corev1.ConfigMap
	if err := errors.Join(w.api.Get(ctx, w.key(pod.Name), &secret), w.api.Get(ctx, w.key(pod.Name), &config)); err != nil {
		w.t.Fatalf("pod %s cannot mount its volumes: %v", pod.Name, err)
	}
	published, err := contract.ParsePublication(secret.Data[contract.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	agent, err := contract.ParseConfig([]byte(config.Data[contract.AgentConfigKey]))
	if err != nil {
		w.t.Fatal(err)
	}
	w.loaded[pod.UID] = w.load(published, agent)
	w.kafka.Start(adminfake.Node{ID: agent.NodeID, Broker: agent.HasRole(contract.RoleBroker), Controller: agent.HasRole(contract.RoleController)})
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "192.0.2.1",
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "kafka", Ready: true, ContainerID: "test://" + string(pod.UID)}},
	}
	if err := w.api.Status().Update(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

func (w *world) load(published contract.Publication, agent contract.Config) contract.TLSReport {
	report := contract.TLSReport{
		Revision: published.Revision, StartedAt: w.clock.Now(),
		Roles: map[contract.Listener]contract.RoleReport{"node": {Presents: fmt.Sprint(agent.NodeID)}},
	}
	for _, store := range agent.Stores {
		report.Roles[store.Listener] = contract.RoleReport{
			Trusts: published.Trust[store.Listener], Presents: published.Identities[store.Identity],
		}
	}
	return report
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
	if !running {
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

func (l *eventLog) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	l.reasons = append(l.reasons, reason)
}
