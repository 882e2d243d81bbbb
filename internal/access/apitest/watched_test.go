package apitest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/access/controller"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// patience is many times what an event takes to become a write.
const patience = time.Minute

// traffic counts reads of single objects, lists of Secrets and writes; watches are left out. It notes which Secrets are
// watched by their names.
type traffic struct {
	next http.RoundTripper

	mu            sync.Mutex
	reads, writes int
	watched       map[string]bool
}

func (c *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	if by := request.URL.Query(); strings.HasSuffix(request.URL.Path, "/secrets") && by.Has("watch") && by.Has("fieldSelector") {
		c.mu.Lock()
		if c.watched == nil {
			c.watched = map[string]bool{}
		}
		c.watched[by.Get("fieldSelector")] = true
		c.mu.Unlock()
	}
	resources := []string{"/secrets/", "/kafkas/", "/kafkausers/", "/kafkaaccesses/"}
	isList := strings.HasSuffix(request.URL.Path, "/secrets") && !request.URL.Query().Has("watch")
	if isList || slices.ContainsFunc(resources, func(r string) bool { return strings.Contains(request.URL.Path, r) }) {
		c.mu.Lock()
		if request.Method == http.MethodGet {
			c.reads++
		} else {
			c.writes++
		}
		c.mu.Unlock()
	}
	return c.next.RoundTrip(request)
}

// since is what has been read and written since then.
func (c *traffic) since(reads, writes int) (int, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads - reads, c.writes - writes
}

// runOperator runs the operator with its watches in the namespace and others, as the command line does.
func (w *world) runOperator(others ...string) {
	w.t.Helper()
	w.runAs(shared.asOperator, watches.NewObserver(clock.RealClock{}), others...)
}

// runAs runs it with the rights of a configuration, and with what observes its watches.
func (w *world) runAs(as *rest.Config, observer *watches.Observer, others ...string) {
	w.t.Helper()
	skip := true
	namespaces := append([]string{w.namespace}, others...)
	server := rest.CopyConfig(as)
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.traffic.next = next
		return &w.traffic
	})
	mgr, err := watches.NewManager(server, &ctrl.Options{
		Scheme: newScheme(w.t), Cache: controller.CacheOptions(namespaces),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip},
	}, observer)
	if err != nil {
		w.t.Fatal(err)
	}
	options := controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("keyturn-access-operator"),
		Clock: clock.RealClock{}, Metrics: controller.NewMetrics(), Namespaces: namespaces, Watches: observer,
	}
	for _, form := range []binding.Form{binding.Public(), binding.Proposed()} {
		if err := controller.New(form, options).SetupWithManager(mgr); err != nil {
			w.t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// await waits until a condition holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	err := wait.PollUntilContextTimeout(w.t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.t.Fatalf("waiting until %s: %v; the reason is %s", what, err, w.reason("my-app"))
	}
}

func (w *world) awaitReason(reason string) {
	w.t.Helper()
	w.await("the reason is "+reason, func() bool { return w.reason("my-app") == reason })
}

func (w *world) awaitData(key, value string) {
	w.t.Helper()
	w.await(fmt.Sprintf("%s is %q", key, value), func() bool { return w.data("my-app")[key] == value })
}

func TestEveryChangeIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runOperator()

	w.access("my-user", nil)
	w.awaitReason("MissingKubernetesResource")
	w.kafka("my-cluster")
	w.user("my-user", kafkav1.UserTLS)
	w.await("the cluster CA is missed", func() bool {
		return w.reason("my-app") == "MissingKubernetesResource" && w.readyMessage("Secret my-cluster-cluster-ca-cert")
	})
	w.caSecret(caOf("first"))
	w.await("the user's Secret is missed", func() bool { return w.readyMessage("Secret my-user ") })
	w.secret("my-user", "strimzi-user-operator", map[string]string{"user.crt": "certificate", "user.key": "key"})
	w.awaitReason("Bound")
	if diff := cmp.Diff(bound(), w.data("my-app")); diff != "" {
		t.Fatalf("the Secret differs (-want +got):\n%s", diff)
	}

	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second"))
	w.awaitData("ssl.truststore.crt", caOf("second"))
	w.updateSecret("my-user", "user.crt", "renewed")
	w.awaitData("ssl.keystore.crt", "renewed")
	kafka := &kafkav1.Kafka{}
	w.get("my-cluster", kafka)
	kafka.Status.Listeners[1].BootstrapServers = "elsewhere:9093"
	w.report(kafka)
	w.awaitData("bootstrap.servers", "elsewhere:9093")
	w.updateSecret("my-app", "type", "overwritten")
	w.awaitData("type", "kafka")
	w.delete("my-app", &corev1.Secret{})
	w.awaitData("type", "kafka")
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
	w.await("the Secret is renamed", func() bool { return w.data("my-app") == nil && w.data("renamed") != nil })
}

// Secrets of people need no label of an operator.
func TestChangesOfSecretsWithoutALabelAreNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runOperator()
	w.kafka("my-cluster")
	w.user("my-user", kafkav1.UserTLS)
	w.secret("my-app", "", map[string]string{"mine": "precious"})
	w.secret("my-cluster-cluster-ca-cert", "", map[string]string{"ca.crt": caOf("first")})
	w.secret("my-user", "", map[string]string{"user.crt": "certificate"})
	w.access("my-user", nil)
	w.awaitReason("IncompleteSecret")
	w.updateSecret("my-user", "user.key", "key")
	w.awaitReason("ForeignObject")
	w.delete("my-app", &corev1.Secret{})
	w.awaitReason("Bound")
	w.updateSecret("my-cluster-cluster-ca-cert", "ca.crt", caOf("second"))
	want := bound()
	maps.Copy(want, map[string]string{"ssl.truststore.crt": caOf("second")})
	w.awaitData("ssl.truststore.crt", caOf("second"))
	if diff := cmp.Diff(want, w.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

// Any tenant can create KafkaAccesses, and each watch costs the operator memory.
func TestNothingIsWatchedByNameForAReferenceThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	kafkas, w := newWorld(t), newWorld(t)
	kafkas.cluster()
	w.secret("my-app", "", map[string]string{"mine": "precious"})
	w.access("my-user", across(kafkas))
	w.runOperator(kafkas.namespace)
	w.awaitReason("NamespaceNotAllowed")
	watched := func() []string {
		w.traffic.mu.Lock()
		defer w.traffic.mu.Unlock()
		return slices.Sorted(maps.Keys(w.traffic.watched))
	}
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "none" })
	w.await("the other name is reported", func() bool { return w.readyMessage("Kafka none ") })
	if names := watched(); slices.Contains(names, "metadata.name=my-app") {
		t.Errorf("watched are %v", names)
	}
	w.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Name = "my-cluster" })
	kafkas.allowAll(w.namespace)
	w.awaitReason("ForeignObject")
	w.await("the Secret in the way is watched", func() bool { return slices.Contains(watched(), "metadata.name=my-app") })
	w.delete("my-app", &corev1.Secret{})
	w.awaitReason("Bound")
}
