package apitest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/user/controller"
)

// traffic counts requests about single Secrets, watches left out.
type traffic struct {
	next http.RoundTripper

	mu      sync.Mutex
	secrets int
}

func (c *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/secrets/") {
		c.mu.Lock()
		c.secrets++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(request)
}

func (c *traffic) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secrets
}

// run starts the user operator as its process does, with its cache and its watches, until the test ends.
func (w *world) run(counted *traffic) *controller.Reconciler {
	w.t.Helper()
	operator, _ := w.start(counted, func(*ctrl.Options) {})
	return operator
}

// start also returns a function that ends the process.
func (w *world) start(counted *traffic, configure func(*ctrl.Options)) (operator *controller.Reconciler, end func()) {
	w.t.Helper()
	return w.startFor(cluster, w.kafka, counted, configure)
}

// startFor starts the user operator of a cluster.
func (w *world) startFor(name string, kafka admin.UsersClient, counted *traffic, configure func(*ctrl.Options)) (operator *controller.Reconciler, end func()) {
	w.t.Helper()
	server := rest.CopyConfig(cmp.Or(w.rights, apiServer))
	observer := cmp.Or(w.observer, watches.NewObserver(clock.RealClock{}))
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	cluster := types.NamespacedName{Namespace: w.namespace, Name: name}
	options := ctrl.Options{
		Scheme: w.person.Scheme(), Cache: controller.CacheOptions(cluster), Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: 8},
	}
	configure(&options)
	mgr, err := watches.NewManager(server, &options, observer)
	if err != nil {
		w.t.Fatal(err)
	}
	operator = controller.New(controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(1000), Log: logr.Discard(),
		Clock: clock.RealClock{}, Cluster: cluster, Stores: authority.WithStores, Metrics: w.metrics(),
		Kafka: kafka, Issuers: w.elsewhere, ReissueRate: reissueRate, Watches: observer,
	})
	if err := operator.SetupWithManager(mgr); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(end)
	return operator, end
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: not within a minute", what)
		case <-ticker.C:
		}
	}
}

// The clock of this test is the real one, and so is the validity of its CA.
func TestTheRunningOperatorReadsASecretOnlyWhenSomethingHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	counted := &traffic{}
	operator := w.run(counted)
	w.user("alice", tls())
	w.until("the user is ready", func() bool {
		_, _, isReady := reasonOf(w.status("alice"), condition.Ready)
		return isReady
	})
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: "alice"}}
	reads := func() int {
		before := counted.count()
		if _, err := operator.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		return counted.count() - before
	}
	// The cache shows the operator's own write a moment after it.
	w.until("a reconcile costs no request about a Secret", func() bool { return reads() == 0 })
	annotate := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"example.com/changed": "yes"}}}`))
	if err := w.person.Patch(t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta("alice")}, annotate); err != nil {
		t.Fatal(err)
	}
	if n := reads(); n != 0 {
		t.Errorf("%d requests about Secrets although nothing of the user has changed", n)
	}
	first := w.leaf("alice")
	w.newCA("clients-ca v1")
	w.until("a changed clients CA reissues the certificate", func() bool { return !w.leaf("alice").Equal(first) })
}

func TestTheRunningOperatorFollowsAPasswordInASecretWithoutALabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	w.run(&traffic{})
	w.user("alice", reads(brings()))
	w.until("the missing Secret is reported", func() bool {
		reason, _, _ := reasonOf(w.status("alice"), condition.NotReady)
		return reason == "MissingPassword"
	})
	w.bring("first")
	w.until("Kafka accepts the password", func() bool { return w.kafka.Password("alice") == "first" })
	w.bring("second")
	w.until("Kafka accepts the next password", func() bool { return w.kafka.Password("alice") == "second" })
	w.until("the user is ready", func() bool {
		_, _, isReady := reasonOf(w.status("alice"), condition.Ready)
		return isReady
	})
}

func TestTheRunningOperatorLetsUsersOfADeletedKafkaGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.SetTime(time.Now())
	w.newCA("clients-ca v0")
	w.run(&traffic{})
	w.user("alice", reads(scram()))
	w.user("bob", reads(tls()))
	for _, name := range []string{"alice", "bob"} {
		w.until("the user is kept", func() bool { return w.isKept(name) && len(w.kafka.Names()) == 2 })
	}
	w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: errors.New("no such host")})
	w.deleteUser("alice")
	w.deleteKafka()
	w.until("the deleted user is gone", func() bool { return w.isGone("alice") })
	w.until("the other user has no finalizer", func() bool { return !w.isKept("bob") })
}
