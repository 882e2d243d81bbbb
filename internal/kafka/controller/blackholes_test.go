package controller_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/podset"
	"github.com/keyturn/keyturn/internal/publication"
)

// What one operator does for a cluster that answers while others are black holes: the real
// reconcilers with as many workers as the operator has by default, on a fake API server
// whose every call takes a while, with nodes that take as long as real ones to load what is
// published to them.

const (
	workers = 4
	// callTime is how long a call to the API server takes.
	callTime = 5 * time.Millisecond
	// How long after it was published a node has mounted something; how long its agent
	// waits then, and, for each place in the turn of its neighbours, more; and how long its
	// server takes to reload.
	mountTime, firstTurn, turn, reloadTime = time.Second, time.Second, 3500 * time.Millisecond, 1500 * time.Millisecond
	// How long an agent and Kafka are waited for by the operator's own clients.
	agentTime, kafkaTime = 3 * time.Second, 5 * time.Second
	kafkaName            = "my"
	lively               = "lively"
)

// land is an API server with Kafkas, one in each namespace. All but one are black holes.
type land struct {
	api     client.Client
	watched client.Client
	kafkas  workqueue.TypedRateLimitingInterface[ctrl.Request]
	sets    workqueue.TypedRateLimitingInterface[ctrl.Request]
	podSets *podset.Reconciler
	kafka   *adminfake.Cluster

	mu sync.Mutex
	// objects counts what was made, which gives names that are unique.
	objects int
	// nodes are the servers of the cluster that answers, by pod, and seen all of its
	// certificates that there were, by their fingerprints.
	nodes map[string]*node
	seen  map[string][]byte
	// own is how its agents answer, theirs how the processes of its neighbours do, and asked
	// how often each has been asked.
	own, theirs manner
	asked       map[string]int
	// pace is how much faster its nodes load what is published than real ones.
	pace int
}

// manner is what becomes of the nth question to a process that is waited for so long.
type manner func(ctx context.Context, nth int, patience time.Duration) error

// vanish is what becomes of a question to a black hole.
func vanish(ctx context.Context, _ int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}

// answerAfter lets that much time pass before each answer.
func answerAfter(wait time.Duration) manner {
	return func(ctx context.Context, _ int, _ time.Duration) error {
		select {
		case <-time.After(wait):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nearlyTooLate is just before a process is given up.
const nearlyTooLate = agentTime - 100*time.Millisecond

func promptly(context.Context, int, time.Duration) error { return nil }

// nowAndThen is on a busy machine: every third answer takes long.
func nowAndThen(ctx context.Context, nth int, patience time.Duration) error {
	if nth%3 > 0 {
		return nil
	}
	return answerAfter(1500*time.Millisecond)(ctx, nth, patience)
}

// byTurns answers at once and late in turn.
func byTurns(ctx context.Context, nth int, patience time.Duration) error {
	if nth%2 == 0 {
		return nil
	}
	return answerAfter(nearlyTooLate)(ctx, nth, patience)
}

// node is a server with what it was started with, what is mounted and what it has loaded.
type node struct {
	turn                     time.Duration
	started, mounted, loaded given
}

// given is what a node was given, and when that ends.
type given struct {
	publication.Publication

	end time.Time
}

func newQueue() workqueue.TypedRateLimitingInterface[ctrl.Request] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
}

func newLand(tb testing.TB, neighbours int, theirs manner) *land {
	tb.Helper()
	scheme := kubetest.Scheme(tb, kafkav1.AddToScheme, podsetv1.AddToScheme)
	l := &land{
		nodes: map[string]*node{}, seen: map[string][]byte{}, own: promptly, theirs: theirs, asked: map[string]int{}, pace: 1,
		kafka: adminfake.New("cluster", time.Now, adminfake.Dual(0, 1, 2)...),
	}
	level := release.MetadataVersion("4.3-IV0").Level()
	l.kafka.SetMetadataVersion(level, level)
	api := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().
		WithStatusSubresource(&kafkav1.Kafka{}, &kafkav1.KafkaNodePool{}, &podsetv1.StrimziPodSet{}, &corev1.Pod{}).Build()
	l.api, l.watched = api, interceptor.NewClient(api, l.calls())
	l.podSets = podset.NewReconciler(l.watched, l.watched, scheme, clock.RealClock{}, controller.PodMaker(settings()))
	for _, namespace := range append(l.holes(neighbours), lively) {
		l.create(tb, namespace)
	}
	return l
}

func (*land) holes(count int) []string {
	names := make([]string, 0, count)
	for i := range count {
		names = append(names, fmt.Sprintf("hole-%d", i))
	}
	return names
}

// create makes a Kafka of three nodes. Small keys keep that fast.
func (l *land) create(tb testing.TB, namespace string) {
	tb.Helper()
	ca := kafkav1.CertificateAuthority{KeyAlgorithm: kafkav1.ECDSA, KeySize: new(int32(256))}
	kafka := &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Name: kafkaName, Namespace: namespace, UID: types.UID(namespace)},
		Spec: kafkav1.KafkaSpec{
			Kafka: kafkav1.KafkaClusterSpec{
				Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: "internal", TLS: true}},
				Config:    map[string]kafkav1.ConfigValue{"default.replication.factor": "3", "min.insync.replicas": "2"},
			},
			ClusterCa: &ca, ClientsCa: ca.DeepCopy(),
		},
	}
	pool := &kafkav1.KafkaNodePool{
		ObjectMeta: metav1.ObjectMeta{
			Name: "dual", Namespace: namespace, UID: types.UID(namespace + "-dual"), Labels: map[string]string{"strimzi.io/cluster": kafkaName},
		},
		Spec: kafkav1.KafkaNodePoolSpec{
			Replicas: 3, Roles: []kafkav1.ProcessRole{kafkav1.RoleController, kafkav1.RoleBroker},
			Storage: kafkav1.Storage{Type: kafkav1.StorageEphemeral},
		},
	}
	for _, object := range []client.Object{kafka, pool} {
		if err := l.api.Create(tb.Context(), object); err != nil {
			tb.Fatal(err)
		}
	}
}

func settings() model.Settings {
	return model.Settings{
		Versions: []model.KafkaVersion{{Name: "4.3.1", Image: "kafka:4.3.1"}}, AgentImage: "keyturn:test",
	}
}

// operator makes one that remembers nothing.
func (l *land) operator() *controller.Reconciler { return controller.New(l.options()) }

func (l *land) options() controller.Options {
	return controller.Options{
		Client: l.watched, Live: l.watched, Events: &events.FakeRecorder{}, Clock: clock.RealClock{}, Connector: l,
		Settings: settings(),
		Stores:   authority.WithoutStores, Metrics: metrics.New(), Version: "test",
	}
}

// run works until the operator's cluster has come so far, and says how long that took.
func (l *land) run(tb testing.TB, operator *controller.Reconciler, namespaces []string, done func(context.Context) bool) time.Duration {
	tb.Helper()
	l.kafkas, l.sets = newQueue(), newQueue()
	ctx, cancel := context.WithCancel(tb.Context())
	began, took := time.Now(), time.Duration(0)
	var finish sync.Once
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			work(l.kafkas, func(request ctrl.Request) (ctrl.Result, error) {
				result, err := operator.Reconcile(ctx, request)
				if done(ctx) {
					finish.Do(func() { took = time.Since(began); cancel() })
				}
				return result, err
			})
		})
		all.Go(func() {
			work(l.sets, func(request ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, l.keepPods(ctx, request) })
		})
	}
	all.Go(func() {
		changed := func(_ context.Context, kafka types.NamespacedName) { l.kafkas.Add(ctrl.Request{NamespacedName: kafka}) }
		if err := operator.Poll(ctx, changed); err != nil {
			tb.Error(err)
		}
	})
	for _, namespace := range namespaces {
		l.kafkas.Add(requestFor(namespace))
	}
	limit, stop := context.WithTimeout(ctx, time.Hour)
	defer stop()
	<-limit.Done()
	cancel()
	l.kafkas.ShutDown()
	l.sets.ShutDown()
	all.Wait()
	if took == 0 {
		tb.Fatal("it has not come so far within an hour")
	}
	return took
}

func requestFor(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: kafkaName}}
}

// work does what a worker of a controller does.
func work(queue workqueue.TypedRateLimitingInterface[ctrl.Request], reconcile func(ctrl.Request) (ctrl.Result, error)) {
	for {
		request, ends := queue.Get()
		if ends {
			return
		}
		result, err := reconcile(request)
		switch {
		case err != nil:
			queue.AddRateLimited(request)
		case result.RequeueAfter > 0:
			queue.Forget(request)
			queue.AddAfter(request, result.RequeueAfter)
		default:
			queue.Forget(request)
		}
		queue.Done(request)
	}
}

// calls take their time, and tell the queues of what was written.
func (l *land) calls() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			pause(ctx)
			return api.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			pause(ctx)
			return api.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, options ...client.CreateOption) error {
			pause(ctx)
			if object.GetUID() == "" {
				object.SetUID(types.UID(fmt.Sprintf("uid-%d", l.count())))
			}
			return l.wrote(object.GetNamespace(), api.Create(ctx, object, options...))
		},
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			pause(ctx)
			return l.wrote(object.GetNamespace(), api.Patch(ctx, object, patch, options...))
		},
		Apply: func(ctx context.Context, api client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			pause(ctx)
			return l.wrote(namespaceOf(object), api.Apply(ctx, object, options...))
		},
		SubResourceApply: func(ctx context.Context, api client.Client, sub string, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
			pause(ctx)
			return l.wrote(namespaceOf(object), api.SubResource(sub).Apply(ctx, object, options...))
		},
	}
}

func namespaceOf(object runtime.ApplyConfiguration) string {
	if named, is := object.(interface{ GetNamespace() *string }); is && named.GetNamespace() != nil {
		return *named.GetNamespace()
	}
	return ""
}

func pause(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	<-ctx.Done()
}

func (l *land) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects++
	return l.objects
}

// wrote is what watches make of a write: somebody looks at its cluster.
func (l *land) wrote(namespace string, err error) error {
	if err == nil && namespace != "" {
		l.kafkas.Add(requestFor(namespace))
		l.sets.Add(requestFor(namespace))
	}
	return err
}

// keepPods makes the pods of a cluster, and does what its kubelets do.
func (l *land) keepPods(ctx context.Context, request ctrl.Request) error {
	var sets podsetv1.StrimziPodSetList
	if err := l.api.List(ctx, &sets, client.InNamespace(request.Namespace)); err != nil {
		return err
	}
	for i := range sets.Items {
		if _, err := l.podSets.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])}); err != nil {
			return err
		}
	}
	var pods corev1.PodList
	if err := l.api.List(ctx, &pods, client.InNamespace(request.Namespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.PodIP == "" {
			if err := l.startPod(ctx, &pods.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *land) startPod(ctx context.Context, pod *corev1.Pod) error {
	published, _, err := l.published(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return err
	}
	number := l.count()
	if pod.Namespace == lively {
		l.mu.Lock()
		l.nodes[pod.Name] = &node{turn: time.Duration(len(l.nodes)) * turn, started: published, mounted: published, loaded: published}
		l.mu.Unlock()
	}
	pod.Spec.NodeName = "machine"
	if err := l.api.Update(ctx, pod); err != nil {
		return err
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: fmt.Sprintf("198.51.%d.%d", number/250, number%250),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "kafka", Ready: true, ContainerID: fmt.Sprintf("test://%d", number),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}},
	}
	return l.wrote(pod.Namespace, l.api.Status().Update(ctx, pod))
}

// published is what a node's Secret says, and the certificates in it.
func (l *land) published(ctx context.Context, namespace, pod string) (given, []*x509.Certificate, error) {
	var secret corev1.Secret
	if err := l.api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: pod}, &secret); err != nil {
		return given{}, nil, err
	}
	published, err := publication.ParsePublication(secret.Data[agent.PublicationKey])
	if err != nil {
		return given{}, nil, err
	}
	chain, err := pki.ParseBundle(secret.Data[pod+".crt"])
	if err != nil {
		return given{}, nil, err
	}
	return given{Publication: published, end: chain[0].NotAfter}, chain, nil
}

// Admin leads to a Kafka that answers, or to a black hole.
func (l *land) Admin(access controller.Access) (admin.Client, error) {
	if strings.Contains(access.Brokers[0], "."+lively+".") {
		return l.kafka.Client(), nil
	}
	return hole{l: l, name: access.Brokers[0]}, nil
}

// Agents leads to the agents of a cluster.
func (l *land) Agents(controller.Access) controller.Agents { return agents{l} }

type agents struct{ l *land }

var errNobody = errors.New("nobody has that address")

func (a agents) TLS(ctx context.Context, node agentclient.Node) (publication.Report, error) {
	pod, err := a.reach(ctx, node)
	if err != nil || pod == "" {
		return publication.Report{}, err
	}
	return a.l.report(ctx, pod)
}

func (a agents) BrokerState(ctx context.Context, node agentclient.Node) (contract.BrokerState, error) {
	_, err := a.reach(ctx, node)
	return contract.BrokerState{State: contract.StateRunning}, err
}

// reach is the pod of the cluster that answers, or none: a neighbour's answers say that it
// has loaded nothing.
func (a agents) reach(ctx context.Context, node agentclient.Node) (string, error) {
	pod, rest, _ := strings.Cut(node.Name, ".")
	if host, _, err := net.SplitHostPort(node.Address); err != nil || host == "" {
		return "", errNobody
	}
	if !strings.Contains(rest, "."+lively+".") {
		return "", a.l.answer(ctx, a.l.theirs, node.Name, agentTime)
	}
	return pod, a.l.answer(ctx, a.l.own, node.Name, agentTime)
}

// answer is what becomes of a question to a process.
func (l *land) answer(ctx context.Context, as manner, name string, patience time.Duration) error {
	l.mu.Lock()
	l.asked[name]++
	nth := l.asked[name]
	l.mu.Unlock()
	return as(ctx, nth, patience)
}

// hole is a Kafka of which nobody answers, or as late as its agents do.
type hole struct {
	admin.Client

	l    *land
	name string
}

// Close has nothing to close.
func (hole) Close() {}

func (h hole) Quorum(ctx context.Context) (admin.Quorum, error) {
	return admin.Quorum{}, h.l.answer(ctx, h.l.theirs, h.name, kafkaTime)
}

func (h hole) Partitions(ctx context.Context) ([]admin.Partition, error) {
	return nil, h.l.answer(ctx, h.l.theirs, h.name, kafkaTime)
}

func (h hole) Features(ctx context.Context) (admin.Features, error) {
	return admin.Features{}, h.l.answer(ctx, h.l.theirs, h.name, kafkaTime)
}

// follow lets the node do what it does about something that was published so long ago.
func (n *node) follow(published given, age time.Duration) {
	if age >= mountTime {
		n.mounted = published
	}
	if age >= mountTime+firstTurn+n.turn+reloadTime {
		n.loaded = published
	}
}

// report is that of a node's agent. What its Raft client holds is from its start.
func (l *land) report(ctx context.Context, pod string) (publication.Report, error) {
	published, chain, err := l.published(ctx, lively, pod)
	if err != nil {
		return publication.Report{}, err
	}
	certificates, err := l.certificates(ctx, chain)
	if err != nil {
		return publication.Report{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, runs := l.nodes[pod]
	if !runs {
		return publication.Report{}, errNobody
	}
	n.follow(published, time.Since(published.PublishedAt)*time.Duration(l.pace))
	report := publication.Report{
		Revision: n.loaded.Revision, StartedAt: n.started.PublishedAt, Mounted: &n.mounted.Publication, Certificates: certificates,
		Reload: publication.ReloadReport{Revision: n.loaded.Revision}, Roles: map[publication.Role]publication.RoleReport{},
	}
	for role, trusted := range n.loaded.Trust {
		shown := n.loaded
		if role == publication.AgentRole {
			shown, trusted = n.mounted, n.mounted.Trust[role]
		}
		report.Roles[role] = shown.role(trusted, n.started.Revision != n.loaded.Revision && role != publication.AgentRole)
	}
	trusted, names := n.started.Trust[contract.RaftRole]
	if !names {
		trusted = n.started.Trust[contract.ControlPlaneListener]
	}
	report.Roles[contract.RaftRole] = n.started.role(trusted, false)
	return report, nil
}

func (g given) role(trusts []string, dynamic bool) publication.RoleReport {
	return publication.RoleReport{
		Trusts: trusts, Presents: g.Identities[publication.NodeIdentity], Chain: g.Chain, NotAfter: g.end, Dynamic: dynamic,
	}
}

// certificates are all that were ever seen, by their fingerprints.
func (l *land) certificates(ctx context.Context, chain []*x509.Certificate) (map[string][]byte, error) {
	seen := slices.Clone(chain)
	var secrets corev1.SecretList
	if err := l.api.List(ctx, &secrets, client.InNamespace(lively)); err != nil {
		return nil, err
	}
	for i := range secrets.Items {
		for name, data := range secrets.Items[i].Data {
			if certs, err := pki.ParseBundle(data); err == nil && strings.HasSuffix(name, ".crt") {
				seen = append(seen, certs...)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cert := range seen {
		l.seen[pki.FingerprintOf(cert).String()] = cert.Raw
	}
	return maps.Clone(l.seen), nil
}

// trustIs reports whether the rotation of the cluster that answers has come so far.
func (l *land) trustIs(tb testing.TB, reason string, generation int) func(context.Context) bool {
	tb.Helper()
	return func(ctx context.Context) bool {
		var kafka kafkav1.Kafka
		if err := l.api.Get(ctx, types.NamespacedName{Namespace: lively, Name: kafkaName}, &kafka); err != nil {
			return false
		}
		var key corev1.Secret
		if err := l.api.Get(ctx, types.NamespacedName{Namespace: lively, Name: authorities.Cluster.KeySecret(kafkaName)}, &key); err != nil {
			return false
		}
		if key.Annotations["strimzi.io/ca-key-generation"] != fmt.Sprint(generation) {
			return false
		}
		for _, c := range kafka.Status.Conditions {
			if string(c.Type) == "ClusterCATrust" && c.Reason == reason {
				return true
			}
		}
		return false
	}
}

// everybodyRuns reports whether all pods of all clusters have been started.
func (l *land) everybodyRuns(ctx context.Context, clusters int) bool {
	var pods corev1.PodList
	if err := l.api.List(ctx, &pods); err != nil {
		return false
	}
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.Status.PodIP == "" })
	return len(running) == 3*clusters
}

// rotation is how long the key of the cluster CA takes to be replaced beside as many black
// holes, by an operator that begins with it.
func rotation(tb testing.TB, own manner, neighbours int, theirs manner) time.Duration {
	tb.Helper()
	l := newLand(tb, neighbours, theirs)
	l.own = own
	return l.rotation(tb, neighbours)
}

func (l *land) rotation(tb testing.TB, neighbours int) time.Duration {
	tb.Helper()
	all := append(l.holes(neighbours), lively)
	trusted := l.trustIs(tb, "Trusted", 0)
	l.run(tb, l.operator(), all, func(ctx context.Context) bool { return l.everybodyRuns(ctx, len(all)) && trusted(ctx) })

	var secret corev1.Secret
	if err := l.api.Get(tb.Context(), types.NamespacedName{Namespace: lively, Name: authorities.Cluster.KeySecret(kafkaName)}, &secret); err != nil {
		tb.Fatal(err)
	}
	secret.Annotations[authorities.ForceReplaceAnnotation] = "true"
	if err := l.api.Update(tb.Context(), &secret); err != nil {
		tb.Fatal(err)
	}
	return l.run(tb, l.operator(), all, l.trustIs(tb, "RaftRestartsPending", 1))
}

// longest is how much longer a rotation may take beside clusters that are not prompt.
const longest = 1.2

// costly are the manners of neighbours that cost a reconcile the time that it waits for them.
func costly() map[string]manner {
	return map[string]manner{"black holes": vanish, "late": answerAfter(nearlyTooLate), "late by turns": byTurns}
}

func TestARotationBesideClustersThatAreNotPromptTakesAFifthLongerAtMost(t *testing.T) {
	t.Parallel()
	const neighbours = 12
	for name, c := range map[string]struct {
		own    manner
		theirs []string
	}{
		"of a cluster that is prompt":    {promptly, slices.Collect(maps.Keys(costly()))},
		"of a cluster on a busy machine": {nowAndThen, []string{"late"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var alone, beside time.Duration
			synctest.Test(t, func(t *testing.T) { alone = rotation(t, c.own, 0, vanish) })
			for _, theirs := range c.theirs {
				synctest.Test(t, func(t *testing.T) { beside = rotation(t, c.own, neighbours, costly()[theirs]) })
				ratio := beside.Seconds() / alone.Seconds()
				t.Logf("%s alone, and %s beside %d neighbours (%s): %.2f times as long", alone, beside, neighbours, theirs, ratio)
				if ratio > longest {
					t.Errorf("a rotation takes %.2f times as long beside %d neighbours (%s), want %.1f at most", ratio, neighbours, theirs, longest)
				}
			}
		})
	}
}

// The time that waiting and working take together, on the machine that it runs on: one
// process does the work of operator, API server and nodes, and nobody is behind a network.
func BenchmarkRotationBesideClustersThatAreNotPrompt(b *testing.B) {
	beside, pace := 50, 1
	if testing.Short() {
		beside, pace = 2, 100
	}
	rotation := func(b *testing.B, neighbours int, theirs manner) time.Duration {
		b.Helper()
		l := newLand(b, neighbours, theirs)
		l.pace = pace
		return l.rotation(b, neighbours)
	}
	alone := rotation(b, 0, vanish)
	for theirs, m := range costly() {
		b.Run(theirs, func(b *testing.B) {
			for b.Loop() {
				took := rotation(b, beside, m)
				b.ReportMetric(alone.Seconds(), "s-alone")
				b.ReportMetric(took.Seconds(), "s-beside-others")
				b.ReportMetric(took.Seconds()/alone.Seconds(), "times-as-long")
			}
		})
	}
}
