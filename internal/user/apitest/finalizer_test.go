package apitest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/finalizers/removal"
)

// runClusterOperator starts what the cluster operator does for users, with its cache and its rights, until the test ends.
func (w *world) runClusterOperator(rights *rest.Config) {
	w.t.Helper()
	scheme := w.person.Scheme()
	if err := podsetv1.AddToScheme(scheme); err != nil {
		w.t.Fatal(err)
	}
	cached := controller.CacheOptions([]string{w.namespace})
	cached.ByObject[&kafkav1.KafkaUser{}] = removal.Cached()
	mgr, err := ctrl.NewManager(rights, ctrl.Options{
		Scheme: scheme, Cache: cached, Logger: logr.Discard(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	users := removal.Users(removal.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(100)})
	if err := users.SetupWithManager(mgr); err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// kept creates a user of a Kafka, or of none, with finalizers.
func (w *world) kept(name, kafka string, finalizers ...string) {
	w.t.Helper()
	user := &kafkav1.KafkaUser{ObjectMeta: w.meta(name), Spec: reads(tls())}
	user.Finalizers = finalizers
	if kafka != "" {
		user.Labels = map[string]string{"strimzi.io/cluster": kafka}
	}
	w.create(user)
}

// No user operator runs: its role may be deleted before the users are.
func TestTheClusterOperatorLetsUsersOfADeletedKafkaGo(t *testing.T) {
	t.Parallel()
	rights := chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.ClusterWide)
	t.Run("when the Kafka is deleted", func(t *testing.T) {
		t.Parallel()
		letsGo(newWorld(t), rights)
	})
	t.Run("when it starts afterwards", func(t *testing.T) {
		t.Parallel()
		letsGoLate(newWorld(t), rights)
	})
}

func letsGo(w *world, rights *rest.Config) {
	w.t.Helper()
	const ours, other = "my-cluster.keyturn.dev/kafka-user", "example.com/other"
	w.kept("deleted-before", cluster, ours)
	w.kept("deleted-after", cluster, ours)
	w.kept("kept-by-another", cluster, other, ours)
	w.kept("relabelled", "absent", ours)
	w.kept("of-an-earlier-version", "absent", "keyturn.dev/kafka-user")
	w.kept("without-a-label", "", "keyturn.dev/kafka-user")
	w.runClusterOperator(rights)
	w.deleteUser("deleted-before")
	w.kept("of-no-kafka", "absent", "absent.keyturn.dev/kafka-user")
	w.until("a user without a Kafka is let go", func() bool { return !w.isKept("of-no-kafka") })
	for _, name := range []string{"of-an-earlier-version", "without-a-label"} {
		w.until(name+" is let go", func() bool { return !w.isKept(name) })
	}
	if !w.isKept("deleted-before") || !w.isKept("deleted-after") || !w.isKept("relabelled") {
		w.t.Fatal("a user of a Kafka that exists has lost its finalizer")
	}

	w.deleteKafka()
	w.until("a user that was deleted before is gone", func() bool { return w.isGone("deleted-before") })
	w.until("no user has the finalizer", func() bool {
		return !w.isKept("deleted-after") && !w.isKept("kept-by-another") && !w.isKept("relabelled")
	})
	if left := w.read("kept-by-another").Finalizers; len(left) != 1 || left[0] != other {
		w.t.Errorf("finalizers are %v, want %s alone", left, other)
	}
	w.deleteUser("deleted-after")
	if !w.isGone("deleted-after") {
		w.t.Error("a user cannot be deleted after its Kafka")
	}
}

func letsGoLate(w *world, rights *rest.Config) {
	w.t.Helper()
	w.kept("alice", cluster, "my-cluster.keyturn.dev/kafka-user")
	w.deleteKafka()
	w.deleteUser("alice")
	if w.isGone("alice") {
		w.t.Fatal("the user is gone although nothing has removed its finalizer")
	}
	w.runClusterOperator(rights)
	w.until("the user is gone", func() bool { return w.isGone("alice") })
}
