package apitest

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

const (
	membersEach = 3
	// What the measurement asks for, and how.
	requestsPerSecond         = 50
	enrolWithin, answerWithin = 5 * time.Minute, 2 * time.Minute
)

// BenchmarkHundredClusters has one operator, as its process is, bring up 100 clusters of
// three members, and then sign requests of their pods. Agents and etcds are played.
func BenchmarkHundredClusters(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as in a process of its own
	for b.Loop() {
		c := newCrowd(b)
		if testing.Short() {
			c.clusters, c.requests, c.settling, c.quiet = 3, 10, time.Second, time.Second
		}
		counted := &writes{}
		c.operate(counted)
		go c.play()
		begun := time.Now()
		c.apply()
		c.untilReady()
		b.ReportMetric(time.Since(begun).Seconds(), "s-until-enrolled")
		b.ReportMetric(residentMiB(b), "MiB-resident")
		b.Logf("all clusters are ready after %s", time.Since(begun))

		c.wait(c.settling)
		before, readBefore, askedBefore, usedBefore := counted.number.Load(), counted.reads.Load(), c.calls(), cpu(b)
		c.wait(c.quiet)
		b.ReportMetric(float64(counted.number.Load()-before), "writes-at-rest")
		b.ReportMetric(float64(counted.reads.Load()-readBefore), "reads-at-rest")
		b.ReportMetric(float64(c.calls()-askedBefore), "questions-at-rest")
		b.ReportMetric((cpu(b) - usedBefore).Seconds(), "cpu-s-at-rest")

		reads, changes := counted.reads.Load(), counted.number.Load()
		latencies := c.ask()
		b.ReportMetric(float64(counted.reads.Load()-reads)/float64(c.requests), "reads/answer")
		b.ReportMetric(float64(counted.number.Load()-changes)/float64(c.requests), "writes/answer")
		b.ReportMetric(milliseconds(latencies[len(latencies)/2]), "ms-median")
		b.ReportMetric(milliseconds(latencies[len(latencies)*99/100]), "ms-p99")
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// residentMiB is what this process has in memory: the operator and all that is played.
func residentMiB(b *testing.B) float64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(data))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// cpu is what this process has used of it.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// calls is how often all etcds were asked.
func (c *crowd) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := 0
	for _, etcd := range c.etcds {
		calls += etcd.Calls()
	}
	return calls
}

// crowd is a namespace with many clusters.
type crowd struct {
	b         *testing.B
	ctx       context.Context
	person    client.WithWatch
	namespace string
	private   string
	// clusters and requests are how many there are. Each cluster is looked at once while they settle, and once while it is quiet.
	clusters, requests int
	settling, quiet    time.Duration

	mu    sync.Mutex
	etcds map[string]*admintest.Fake // by cluster
	keys  map[string]map[contract.Plane]pki.PrivateKey
	seen  map[string][]sight // by pod
}

// sight is a pod as a watch has shown it.
type sight struct {
	at      time.Time
	version uint64
	has     map[contract.Plane]bool
}

func newCrowd(b *testing.B) *crowd {
	b.Helper()
	c := &crowd{
		b: b, ctx: b.Context(), etcds: map[string]*admintest.Fake{}, keys: map[string]map[contract.Plane]pki.PrivateKey{}, seen: map[string][]sight{},
		clusters: 100, requests: 1000, settling: 65 * time.Second, quiet: time.Minute,
	}
	var err error
	if c.person, err = client.NewWithWatch(apiServer, client.Options{Scheme: connect(b, apiServer).Scheme()}); err != nil {
		b.Fatal(err)
	}
	c.namespace, c.private = kubetest.Namespace(b, c.person, "etcd-"), kubetest.Namespace(b, c.person, "operator-")
	return c
}

// dial connects to the etcd of the cluster whose member is named.
func (c *crowd) dial(_ context.Context, _ []string, identity *tls.Config) (admin.Client, error) {
	service := strings.Split(identity.ServerName, ".")[1]
	return memberOf{c.etcd(strings.TrimSuffix(service, "-peer")), "https://" + identity.ServerName + ":2379"}, nil
}

// memberOf is a client of one member of the etcd in memory, which knows it by its name.
type memberOf struct {
	*admintest.Fake

	url string
}

func (m memberOf) Status(ctx context.Context, _ string) (admin.Status, error) {
	return m.Fake.Status(ctx, m.url)
}

func (m memberOf) MoveLeader(ctx context.Context, _ string, id uint64) error {
	return m.Fake.MoveLeader(ctx, m.url, id)
}

func (c *crowd) etcd(cluster string) *admintest.Fake {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.etcds[cluster] == nil {
		c.etcds[cluster] = &admintest.Fake{}
	}
	return c.etcds[cluster]
}

// operate runs the operator until the benchmark ends.
func (c *crowd) operate(counted *writes) {
	c.b.Helper()
	server := rest.CopyConfig(apiServer)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	mgr, err := ctrl.NewManager(server, ctrl.Options{
		Scheme: c.person.Scheme(), Cache: controller.CacheOptions(c.private, []string{c.namespace}), Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 4},
	})
	if err != nil {
		c.b.Fatal(err)
	}
	operator := controller.New(controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: &events.FakeRecorder{}, Log: logr.Discard(),
		Clock: clock.RealClock{}, Dial: c.dial, Agents: toNoAgent, Namespace: c.private, Metrics: controller.NewMetrics(), Attestor: attested{},
		Settings: model.Settings{AgentImage: "keyturn:test", ClusterDomain: "cluster.local"},
	})
	if err := operator.SetupWithManager(mgr); err != nil {
		c.b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(c.ctx))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			c.b.Error(err)
		}
	})
}

func (c *crowd) apply() {
	c.b.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range c.clusters {
		group.Go(func() error {
			return c.person.Create(c.ctx, &etcdv1beta2.EtcdCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: fmt.Sprintf("c%03d", i)}, Spec: of(membersEach),
			})
		})
	}
	if err := group.Wait(); err != nil {
		c.b.Fatal(err)
	}
}

func (c *crowd) untilReady() {
	c.b.Helper()
	for since := time.Now(); time.Since(since) < enrolWithin; c.wait(time.Second) {
		var list etcdv1beta2.EtcdClusterList
		if err := c.person.List(c.ctx, &list, client.InNamespace(c.namespace)); err != nil {
			c.b.Fatal(err)
		}
		if !slices.ContainsFunc(list.Items, func(e etcdv1beta2.EtcdCluster) bool {
			return !apimeta.IsStatusConditionTrue(e.Status.Conditions, etcdv1beta2.ConditionReady)
		}) {
			return
		}
	}
	c.b.Fatalf("not all clusters are ready after %s", enrolWithin)
}

func (c *crowd) wait(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}

// lookAgain is how often pods that wait are looked at although nothing has changed: a
// learner becomes a voter.
const lookAgain = 500 * time.Millisecond

// play plays kubelet and agent of every pod as a watch shows it.
func (c *crowd) play() {
	shown, err := c.person.Watch(c.ctx, &corev1.PodList{}, client.InNamespace(c.namespace))
	if err != nil {
		c.b.Error(err)
		return
	}
	defer shown.Stop()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	group := errgroup.Group{}
	group.SetLimit(8)
	waiting := map[string]*corev1.Pod{}
	for {
		due := map[string]*corev1.Pod{}
		select {
		case <-c.ctx.Done():
			return
		case event := <-shown.ResultChan():
			if pod, is := event.Object.(*corev1.Pod); is {
				c.note(pod)
				due[pod.Name], waiting[pod.Name] = pod, pod
			}
		case <-ticker.C:
			due = waiting
		}
		for name, pod := range due {
			if len(pod.Status.Conditions) > 0 {
				delete(waiting, name)
				continue
			}
			group.Go(func() error {
				if err := c.step(pod.DeepCopy()); client.IgnoreNotFound(err) != nil {
					c.b.Error(err)
				}
				return nil
			})
		}
	}
}

func (c *crowd) note(pod *corev1.Pod) {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	now := sight{at: time.Now(), version: version, has: map[contract.Plane]bool{}}
	for _, plane := range contract.Planes() {
		now.has[plane] = pod.Annotations[plane.CertificateAnnotation()] != ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[pod.Name] = append(c.seen[pod.Name], now)
}

// step does what kubelet or agent do next.
func (c *crowd) step(pod *corev1.Pod) error {
	answered, requests := true, map[string]string{}
	for _, plane := range contract.Planes() {
		answered = answered && pod.Annotations[plane.CertificateAnnotation()] != ""
		if pod.Annotations[plane.RequestAnnotation()] == "" {
			requests[plane.RequestAnnotation()] = c.request(pod.Name, plane)
		}
	}
	before := pod.DeepCopy()
	switch {
	case pod.Status.PodIP == "":
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
	case len(requests) > 0:
		return c.annotate(pod, requests)
	case answered && c.votes(pod):
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	return c.person.Status().Patch(c.ctx, pod, client.MergeFrom(before))
}

// votes starts the etcd of a pod and reports whether it is no learner.
func (c *crowd) votes(pod *corev1.Pod) bool {
	etcd := c.etcd(pod.Labels[model.ClusterLabel])
	etcd.Start(nil, pod.Name, flagOf(pod, "--initial-advertise-peer-urls"))
	members, err := etcd.Members(c.ctx)
	return err == nil && slices.ContainsFunc(members, func(m admin.Member) bool { return m.Name == pod.Name && !m.IsLearner })
}

func (c *crowd) annotate(pod *corev1.Pod, annotations map[string]string) error {
	before := pod.DeepCopy()
	maps.Copy(pod.Annotations, annotations)
	return c.person.Patch(c.ctx, pod, client.MergeFrom(before))
}

// request is a new request for the key that a pod has for a plane.
func (c *crowd) request(pod string, plane contract.Plane) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[pod] == nil {
		c.keys[pod] = map[contract.Plane]pki.PrivateKey{}
	}
	key, known := c.keys[pod][plane]
	if !known {
		var err error
		if key, err = pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA)); err != nil {
			c.b.Error(err)
		}
		c.keys[pod][plane] = key
	}
	request, err := pki.NewRequest(key, pki.Subject{CommonName: pod}, pki.SANs{})
	if err != nil {
		c.b.Error(err)
	}
	return base64.StdEncoding.EncodeToString(request)
}

// asked is a request that was put into a pod.
type asked struct {
	pod     string
	plane   contract.Plane
	at      time.Time
	version uint64
}

// ask has pods ask anew at a steady rate, and returns how long each waited for its answer, sorted.
func (c *crowd) ask() []time.Duration {
	c.b.Helper()
	pods := &corev1.PodList{}
	if err := c.person.List(c.ctx, pods, client.InNamespace(c.namespace)); err != nil {
		c.b.Fatal(err)
	}
	all := make([]asked, c.requests)
	group := errgroup.Group{}
	ticker := time.NewTicker(time.Second / requestsPerSecond)
	defer ticker.Stop()
	for i := range c.requests {
		<-ticker.C
		pod, plane := &pods.Items[i%len(pods.Items)], contract.Planes()[i/len(pods.Items)%2]
		group.Go(func() error {
			all[i] = asked{pod: pod.Name, plane: plane, at: time.Now()}
			patched := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: pod.Name}}
			patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q, %q: null}}}`,
				plane.RequestAnnotation(), c.request(pod.Name, plane), plane.CertificateAnnotation())
			err := c.person.Patch(c.ctx, patched, client.RawPatch(types.MergePatchType, []byte(patch)))
			all[i].version, _ = strconv.ParseUint(patched.ResourceVersion, 10, 64)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.b.Fatal(err)
	}
	for since := time.Now(); time.Since(since) < answerWithin; c.wait(time.Second) {
		if latencies := c.answered(all); len(latencies) == len(all) {
			slices.Sort(latencies)
			return latencies
		}
	}
	c.b.Fatalf("%d of %d requests are answered after %s", len(c.answered(all)), len(all), answerWithin)
	return nil
}

// answered is how long after each request a watch has shown its answer, of those that are answered.
func (c *crowd) answered(all []asked) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var latencies []time.Duration
	for _, request := range all {
		sights := c.seen[request.pod]
		i := slices.IndexFunc(sights, func(s sight) bool { return s.version > request.version && s.has[request.plane] })
		if i >= 0 {
			latencies = append(latencies, sights[i].at.Sub(request.at))
		}
	}
	return latencies
}
