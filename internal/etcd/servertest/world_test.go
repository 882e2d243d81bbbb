package servertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/controller"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// Variables that the tests need.
const (
	assets    = "KUBEBUILDER_ASSETS"
	etcdHomes = "KEYTURN_ETCD_HOMES"
)

const (
	cluster = "my-cluster"
	// loopback is the address of every pod: ports tell them apart.
	loopback = "127.0.0.1"
	// limit is how long the tests wait for what happens in other processes.
	limit = 90 * time.Second
	// answerLimit is how long an answer is waited for that must not come.
	answerLimit = 2 * time.Second
	// turn is how often operator and kubelet look.
	turn = 100 * time.Millisecond
)

// apiServer is the connection that all tests share; nil without the variables.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	if os.Getenv(assets) == "" || os.Getenv(etcdHomes) == "" {
		os.Exit(m.Run())
	}
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		apiServer = server.Config
		return m.Run()
	}))
}

// world is an EtcdCluster with its operator, and a kubelet that starts an agent for each pod.
type world struct {
	t    *testing.T
	home string
	// homes are for pods of a version; the others have home.
	homes map[string]string
	// files is the volume of the file that a cluster begins with.
	files     string
	api       client.Client
	namespace string
	private   string
	names     model.Names
	operator  *controller.Reconciler
	log       *buffer
	// ahead is how much the clock of the operator is ahead.
	ahead atomic.Int64

	mu      sync.Mutex
	members map[string]*member
}

// attested is an API server that enforces the admission policy.
type attested struct{}

func (attested) Verdict(context.Context, ...*corev1.Pod) attestation.Verdict {
	return attestation.Verdict{Reason: attestation.PolicyEnforced, Revision: "1"}
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newWorld(t *testing.T, home string, spec etcdv1beta2.EtcdClusterSpec) *world {
	t.Helper()
	api := kubetest.Connect(t, apiServer, etcdv1beta2.AddToScheme)
	w := &world{
		t: t, home: home, api: api, log: &buffer{}, members: map[string]*member{},
		namespace: kubetest.Namespace(t, api, "etcd-"), private: kubetest.Namespace(t, api, "operator-"),
	}
	w.names = model.Names{Namespace: w.namespace, Cluster: cluster}
	w.operator = controller.New(controller.Options{
		Client: api, Live: api, Events: events.NewFakeRecorder(10000), Log: logr.Discard(), Clock: early{world: w},
		Dial: w.dial, Agents: w.agents(controller.Agents(clock.RealClock{})), Namespace: w.private, Metrics: controller.NewMetrics(), Attestor: attested{},
		Settings: model.Settings{AgentImage: "keyturn:test", ClusterDomain: "cluster.local"},
	})
	if spec.Version == "" && strings.HasPrefix(filepath.Base(home), "etcd35") { // flags are those of a version
		spec.Version = "3.5.35"
	}
	resource := &etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: cluster}, Spec: spec}
	if err := api.Create(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { w.loop(ctx, w.reconcile) })
	loops.Go(func() { w.loop(ctx, w.sync) })
	t.Cleanup(func() {
		cancel()
		loops.Wait()
		w.end()
	})
	return w
}

// loop does something again and again until the context ends. What fails is in the log.
func (w *world) loop(ctx context.Context, do func(context.Context) error) {
	ticker := time.NewTicker(turn)
	defer ticker.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			_, _ = fmt.Fprintln(w.log, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// early is the clock of the operator.
type early struct {
	clock.RealClock

	world *world
}

func (e early) Now() time.Time { return e.RealClock.Now().Add(time.Duration(e.world.ahead.Load())) }

func (e early) Since(at time.Time) time.Duration { return e.Now().Sub(at) }

// look has the operator look at the members as if a minute had passed.
func (w *world) look() { w.ahead.Add(int64(time.Minute)) }

func (w *world) reconcile(ctx context.Context) error {
	w.operator.Look(ctx)
	w.operator.PollAgents(ctx)
	_, err := w.operator.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: cluster}})
	return err
}

// end stops all agents.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.cancel != nil {
			m.cancel()
			<-m.stopped
		}
	}
}

// until waits until a condition holds.
func (w *world) until(what string, holds func(context.Context) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(turn)
	defer ticker.Stop()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			w.t.Fatalf("not within %s: %s; status %+v; the log:\n%s", limit, what, w.status(w.t.Context()), w.log)
		case <-ticker.C:
		}
	}
}

func (w *world) status(ctx context.Context) etcdv1beta2.EtcdClusterStatus {
	w.t.Helper()
	resource := &etcdv1beta2.EtcdCluster{}
	err := w.api.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: cluster}, resource)
	if err != nil && ctx.Err() == nil { // until says what has not come in time
		w.t.Fatal(err)
	}
	return resource.Status
}

// client is etcd's own, as the operator.
func (w *world) client(ctx context.Context, member string) (*clientv3.Client, error) {
	secret := &corev1.Secret{}
	if err := w.api.Get(ctx, types.NamespacedName{Namespace: w.private, Name: w.names.OperatorSecret()}, secret); err != nil {
		return nil, err
	}
	identity, err := tls.X509KeyPair(secret.Data[model.OperatorCertEntry], secret.Data[model.OperatorKeyEntry])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: pool(secret.Data[model.OperatorAnchorsEntry]), Certificates: []tls.Certificate{identity}, ServerName: w.names.Host(member)}
	return clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{"https://" + w.member(member).ports[contract.ClientPlane]}, TLS: config, Logger: zap.NewNop(), DialTimeout: limit,
	})
}
