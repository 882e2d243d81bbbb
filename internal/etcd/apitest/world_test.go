package apitest

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/mtls"
)

// apiServer is the connection that all tests share. Each test has namespaces of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		apiServer = server.Config
		return m.Run()
	}))
}

const cluster = "my-cluster"

// world is a namespace with an EtcdCluster, the namespace of its operator, and an etcd in memory.
type world struct {
	t          *testing.T
	person     client.Client
	asOperator client.Client
	// kubelet writes the status of pods, and ofPod what a pod writes itself.
	kubelet client.Client
	ofPod   func(pod *corev1.Pod) client.Client
	// attestor outlives the operator.
	attestor  controller.Attestor
	namespace string
	private   string
	clock     *clocktesting.FakeClock
	// ahead is how much clock is ahead of the API server's, as far as the operator knows.
	ahead time.Duration
	etcd  *admintest.Fake
	// dial connects the operator to etcd; nil connects it to the one in memory.
	dial admin.Dial
	// withoutDNS has no name resolve.
	withoutDNS bool
	// unreached is what keeps the operator from connecting to members.
	unreached error
	agents    map[types.UID]*agent
	// volumes are the ids of the members that have data on them, by the UID of the claim, or of the pod without one.
	volumes  map[types.UID]uint64
	events   *events.FakeRecorder
	writer   *kubetest.Writer
	operator *controller.Reconciler
	metrics  *controller.Metrics
	readsPKI bool
	// settings of the operator, without those that every world has.
	settings model.Settings
	// runsBy is the clock of an operator that runs; nil means that of the machine.
	runsBy clock.Clock
	// grantsAccess is true where an operator that runs looks at EtcdAccesses.
	grantsAccess bool
	// withoutAccess is true where one that is restarted has no rights to EtcdAccesses.
	withoutAccess bool
	// observer is what an operator that runs knows of its watches; nil for one of the real time.
	observer *watches.Observer
}

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func newWorld(t *testing.T, spec etcdv1beta2.EtcdClusterSpec) *world {
	t.Helper()
	person := connect(t, apiServer)
	return newWorldIn(t, kubetest.Namespace(t, person, "etcd-"), kubetest.Namespace(t, person, "operator-"), person, spec)
}

func newWorldIn(t *testing.T, namespace, private string, operator client.Client, spec etcdv1beta2.EtcdClusterSpec) *world {
	t.Helper()
	w := &world{
		t: t, person: connect(t, apiServer), asOperator: operator, namespace: namespace, private: private,
		clock: clocktesting.NewFakeClock(noon()), etcd: &admintest.Fake{}, agents: map[types.UID]*agent{}, volumes: map[types.UID]uint64{},
		attestor: attested{},
	}
	w.kubelet = w.person
	w.ofPod = func(*corev1.Pod) client.Client { return w.person }
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: spec})
	w.restart()
	return w
}

func connect(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	return kubetest.Connect(t, config, etcdv1beta2.AddToScheme, keyturnv1alpha1.AddToScheme)
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.person.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// restart replaces the operator by one that remembers nothing.
func (w *world) restart() {
	w.writer = &kubetest.Writer{Client: ofNamespace{w.asOperator, w.namespace}}
	w.metrics = controller.NewMetrics()
	w.events = events.NewFakeRecorder(1000)
	w.etcd.Before = func() error { return w.writer.Count("change", "etcd", func() error { return nil }) }
	settings := w.settings
	settings.AgentImage, settings.ClusterDomain, settings.OperatorNamespace = "keyturn:test", "cluster.local", w.private
	w.operator = controller.New(controller.Options{
		Client: w.writer, Live: w.asOperator, Events: w.events, Log: logr.Discard(), Clock: w.clock, Ahead: func() time.Duration { return w.ahead },
		Dial: w.connectTo, Agents: func(credentials mtls.Credentials) controller.AgentClient { return polled{w, credentials} }, Network: w, Namespace: w.private, ReadsPKI: w.readsPKI, GrantsAccess: !w.withoutAccess, Metrics: w.metrics, Attestor: w.attestor,
		Settings: settings,
	})
}

// connectTo connects the operator to the member at an address or a name. Etcd in memory knows names alone.
func (w *world) connectTo(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
	dial, named := w.etcd.Dial, make([]string, len(urls))
	if w.dial != nil {
		dial = w.dial
	}
	for i, url := range urls {
		named[i] = w.named(url)
		if named[i] == url && w.withoutDNS {
			return nil, admin.ErrNameNotFound
		}
	}
	connected, err := dial(ctx, named, identity)
	return addressed{connected, w}, err
}

// named is the client URL of a member by its name, given one by the address of its pod.
func (w *world) named(url string) string {
	pods := w.pods()
	for i := range pods {
		status, spec := pods[i].Status, pods[i].Spec
		if status.PodIP != "" && strings.HasSuffix(url, "://"+status.PodIP+":2379") {
			return strings.Replace(url, status.PodIP, fmt.Sprintf("%s.%s.%s.svc", spec.Hostname, spec.Subdomain, w.namespace), 1)
		}
	}
	return url
}

// addressed is a client that speaks of members by the addresses of their pods.
type addressed struct {
	admin.Client

	world *world
}

func (a addressed) Status(ctx context.Context, url string) (admin.Status, error) {
	return a.Client.Status(ctx, a.world.named(url))
}

func (a addressed) MoveLeader(ctx context.Context, url string, id uint64) error {
	return a.Client.MoveLeader(ctx, a.world.named(url), id)
}

// Reach implements admin.Network: nothing is reached where etcd does not answer.
func (w *world) Reach(context.Context, string, *tls.Config) error { return w.unreached }

// Resolve implements admin.Network.
func (w *world) Resolve(context.Context, string) error {
	if w.withoutDNS {
		return fmt.Errorf("%w: no such host", admin.ErrNameNotFound)
	}
	return nil
}

// try reconciles the cluster once.
func (w *world) try() (ctrl.Result, error) {
	return w.operator.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: cluster}})
}

func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.try()
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// bring reconciles and plays the pods until the cluster is ready.
func (w *world) bring() {
	w.t.Helper()
	for range 40 {
		w.reconcile()
		w.play()
		if w.condition(etcdv1beta2.ConditionReady).Status == metav1.ConditionTrue {
			w.reconcile()
			return
		}
	}
	w.t.Fatalf("the cluster does not become ready: %+v", w.status())
}

// until reconciles and plays the pods until the cluster is not ready for a reason.
func (w *world) until(reason string) string {
	w.t.Helper()
	for range 40 {
		w.reconcile()
		w.play()
		if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason == reason {
			return ready.Message
		}
	}
	w.t.Fatalf("the reason does not become %s: %+v", reason, w.status())
	return ""
}

func (w *world) cluster() *etcdv1beta2.EtcdCluster {
	w.t.Helper()
	stored := &etcdv1beta2.EtcdCluster{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, stored); err != nil {
		w.t.Fatal(err)
	}
	return stored
}

func (w *world) status() etcdv1beta2.EtcdClusterStatus {
	w.t.Helper()
	return w.cluster().Status
}

func (w *world) condition(kind string) metav1.Condition {
	w.t.Helper()
	condition := apimeta.FindStatusCondition(w.status().Conditions, kind)
	if condition == nil {
		return metav1.Condition{}
	}
	return *condition
}

// change changes the spec of the cluster.
func (w *world) change(patch string) {
	w.t.Helper()
	if err := w.tryChange(patch); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryChange(patch string) error {
	object := &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)}
	return w.person.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.person.List(w.t.Context(), &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods.Items
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, pod); err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *world) annotate(pod, key, value string) {
	w.t.Helper()
	w.annotateAs(w.person, pod, key, value)
}

func (w *world) annotateAs(who client.Client, pod, key, value string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, key, value)
	err := who.Patch(w.t.Context(), &corev1.Pod{ObjectMeta: w.meta(pod)}, client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil { // it may be deleted at any time
		w.t.Fatal(err)
	}
}

func (w *world) secret(namespace, name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// told reports whether an event has a reason.
func (w *world) told(reason string) bool {
	found := false
	for len(w.events.Events) > 0 {
		found = strings.Contains(<-w.events.Events, reason) || found
	}
	return found
}

// atRest fails the test if another reconcile writes or asks etcd.
func (w *world) atRest() {
	w.t.Helper()
	w.reconcile()
	w.writer.Sent = 0
	calls := w.etcd.Calls()
	for range 3 {
		w.reconcile()
	}
	if w.writer.Sent > 0 || w.etcd.Calls() > calls {
		w.t.Errorf("%d writes and %d questions to etcd although nothing has changed: %v", w.writer.Sent, w.etcd.Calls()-calls, w.writer.Last)
	}
}

// ofNamespace lists the EtcdClusters of one world alone.
type ofNamespace struct {
	client.Client

	namespace string
}

func (c ofNamespace) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*etcdv1beta2.EtcdClusterList); is {
		opts = append(opts, client.InNamespace(c.namespace))
	}
	return c.Client.List(ctx, list, opts...)
}
