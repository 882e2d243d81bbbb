package apitest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/twmb/franz-go/pkg/kerr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	kafkacontroller "github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/finalizers/removal"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/topic/controller"
)

// traffic counts requests that change something.
type traffic struct {
	next http.RoundTripper

	mu     sync.Mutex
	writes int
}

func (c *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		c.mu.Lock()
		c.writes++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(request)
}

func (c *traffic) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// run starts the topic operator of a cluster as its process does, with its cache and its watches. It returns a function that ends the
// process, which ends with the test otherwise.
func (w *world) run(kafka admin.TopicsClient, name string, configure ...func(*ctrl.Options)) (end func()) {
	w.t.Helper()
	return w.runCounted(&traffic{}, kafka, name, configure...)
}

func (w *world) runCounted(counted *traffic, kafka admin.TopicsClient, name string, configure ...func(*ctrl.Options)) (end func()) {
	w.t.Helper()
	server := rest.CopyConfig(cmp.Or(w.rights, apiServer))
	server.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	observer := cmp.Or(w.observer, watches.NewObserver(clock.RealClock{}))
	ofCluster := types.NamespacedName{Namespace: w.namespace, Name: name}
	options := ctrl.Options{
		Scheme: w.person.Scheme(), Cache: controller.CacheOptions(ofCluster), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: controller.Concurrency},
	}
	for _, change := range configure {
		change(&options)
	}
	mgr, err := watches.NewManager(server, &options, observer)
	if err != nil {
		w.t.Fatal(err)
	}
	operator := controller.New(controller.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(10_000), Log: logr.Discard(), Clock: clock.RealClock{},
		Cluster: ofCluster, Metrics: controller.NewMetrics(ofCluster), Kafka: kafka, Watches: observer,
	})
	if err := operator.SetupWithManager(w.t.Context(), mgr); err != nil {
		w.t.Fatal(err)
	}
	return w.startManager(mgr)
}

func (w *world) startManager(mgr ctrl.Manager) (end func()) {
	w.t.Helper()
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
	return end
}

// runClusterOperator starts what the cluster operator does for topics.
func (w *world) runClusterOperator() {
	w.t.Helper()
	cached := kafkacontroller.CacheOptions([]string{w.namespace})
	for object := range cached.ByObject {
		if _, is := object.(*kafkav1.Kafka); !is {
			delete(cached.ByObject, object)
		}
	}
	cached.ByObject[&kafkav1.KafkaTopic{}] = removal.Cached()
	mgr, err := ctrl.NewManager(apiServer, ctrl.Options{
		Scheme: w.person.Scheme(), Cache: cached, Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	finalizers := removal.Topics(removal.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: events.NewFakeRecorder(100)})
	if err := finalizers.SetupWithManager(mgr); err != nil {
		w.t.Fatal(err)
	}
	w.startManager(mgr)
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: not within two minutes", what)
		case <-ticker.C:
		}
	}
}

// states counts the KafkaTopics by the reason of their condition Ready.
func (w *world) states() map[string]int {
	w.t.Helper()
	var list kafkav1.KafkaTopicList
	if err := w.person.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	states := map[string]int{}
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == "Ready" {
				states[string(c.Status)+c.Reason]++
			}
		}
	}
	return states
}

func TestTwoHundredObjectsForAHundredTopics(t *testing.T) {
	t.Parallel()
	const count = 100
	w := newWorld(t)
	counted := &traffic{}
	w.runCounted(counted, w.kafka, cluster)
	for _, who := range []string{"first", "second"} {
		for i := range count {
			w.topic(fmt.Sprintf("%s-%03d", who, i), named(fmt.Sprintf("topic-%03d", i), sized(1, 1)))
		}
	}
	w.until("one of two is ready", func() bool {
		states := w.states()
		return states["True"] == count && states["FalseResourceConflict"] == count
	})
	if acts := w.kafka.Acts(); len(acts) != count {
		t.Errorf("there were %d changes in Kafka: %v", len(acts), acts)
	}
	w.kafka.Hold("outside", 1, 1, nil)
	for i := range count {
		w.deleteTopic(fmt.Sprintf("first-%03d", i))
	}
	w.until("the others have taken over", func() bool { return w.states()["True"] == count })
	if acts := w.kafka.Acts(); len(acts) != count {
		t.Errorf("there were %d changes in Kafka: %v", len(acts), acts)
	}
	for i := range count {
		w.deleteTopic(fmt.Sprintf("second-%03d", i))
	}
	w.until("all objects are gone", func() bool { return w.isGone("second-099") && len(w.states()) == 0 })
	if names := w.kafka.Names(); len(names) != 1 || names[0] != "outside" {
		t.Errorf("Kafka has %v", names)
	}
	writes := counted.count()
	w.until("a second passes", tick(time.Second))
	if more := counted.count() - writes; more > 0 {
		t.Errorf("at rest there were %d writes", more)
	}
}

// tick holds after some time.
func tick(pause time.Duration) func() bool {
	begin := time.Now()
	return func() bool { return time.Since(begin) > pause }
}

// slowKafka answers the first request to create topics when many have the finalizer: the others wait for that.
type slowKafka struct {
	admin.TopicsClient

	first func()
}

func (k slowKafka) CreateTopics(ctx context.Context, wanted []topics.New) (map[string]admin.Creation, error) {
	k.first()
	return k.TopicsClient.CreateTopics(ctx, wanted)
}

// kept counts the KafkaTopics with the finalizer.
func (w *world) kept() int {
	w.t.Helper()
	var list kafkav1.KafkaTopicList
	if err := w.person.List(w.t.Context(), &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return len(slices.DeleteFunc(list.Items, func(t kafkav1.KafkaTopic) bool { return !slices.Contains(t.Finalizers, ours) }))
}

func TestTopicsAreCreatedTogetherAndAPoisonedOneStopsNoOther(t *testing.T) {
	t.Parallel()
	const count = 200
	w := newWorld(t)
	w.kafka.Refuse("topic-007", kerr.PolicyViolation)
	for i := range count {
		w.topic(fmt.Sprintf("topic-%03d", i), sized(1, 1))
	}
	w.run(slowKafka{w.kafka, sync.OnceFunc(func() {
		w.until("others wait", func() bool { return w.kept() >= count/2 })
	})}, cluster)
	w.until("all but one are ready", func() bool {
		states := w.states()
		return states["True"] == count-1 && states["FalseKafkaError"] == 1
	})
	if requests := w.kafka.Requests(); len(requests) > count*3/4 {
		t.Errorf("there were %d requests for %d topics: %v", len(requests), count, requests)
	}
	if rounds := w.kafka.Rounds(); rounds != 1 {
		t.Errorf("all topics were described %d times", rounds)
	}
}

// elect has processes share the Lease of the topic operator.
func (w *world) elect(options *ctrl.Options) {
	lease, renew, retry := 2*time.Minute, time.Minute, 200*time.Millisecond
	options.LeaderElection, options.LeaderElectionNamespace, options.LeaderElectionID = true, w.namespace, cluster+"-topic-operator"
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &lease, &renew, &retry
	options.LeaderElectionReleaseOnCancel = true
}

func TestTwoOperatorsCreateNoTopicTwice(t *testing.T) {
	t.Parallel()
	const count = 100
	for name, configure := range map[string]func(*world) func(*ctrl.Options){
		"one after the other": func(w *world) func(*ctrl.Options) { return w.elect },
		"at the same time":    func(*world) func(*ctrl.Options) { return func(*ctrl.Options) {} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			end := w.run(w.kafka, cluster, configure(w))
			w.run(w.kafka, cluster, configure(w))
			for i := range count {
				w.topic(fmt.Sprintf("topic-%03d", i), sized(1, 1))
				if i == count/2 {
					w.until("some topics are created", func() bool { return len(w.kafka.Names()) > 0 })
					end()
				}
			}
			w.until("all are ready", func() bool { return w.states()["True"] == count })
			if acts := w.kafka.Acts(); len(acts) != count {
				t.Errorf("there were %d changes in Kafka: %v", len(acts), acts)
			}
			for i := range count {
				held, _ := w.kafka.Held(fmt.Sprintf("topic-%03d", i))
				if id := w.read(fmt.Sprintf("topic-%03d", i)).Status.TopicID; id != held.ID.String() {
					t.Errorf("topic %d has the id %s, and Kafka %s", i, id, held.ID)
				}
			}
		})
	}
}

func (w *world) deleteNamespace() {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}); err != nil {
		w.t.Fatal(err)
	}
}

// The API server of these tests has no controller that empties a namespace: the tests do what it does, in every order.
func TestANamespaceIsDeletedInEveryOrder(t *testing.T) {
	t.Parallel()
	type step = func(w *world, end func())
	deleteKafka := func(w *world, _ func()) { w.deleteKafka() }
	deleteTopics := func(w *world, _ func()) { w.deleteTopic("orders") }
	endOperator := func(_ *world, end func()) { end() }
	silence := func(w *world, _ func()) { w.kafka.Fail(&admin.UnreachableError{Address: "a", Err: kubetest.ErrCrash}) }
	for name, steps := range map[string][]step{
		"topics, Kafka, operator":          {deleteTopics, deleteKafka, endOperator},
		"topics, operator, Kafka":          {deleteTopics, endOperator, deleteKafka},
		"Kafka, topics, operator":          {deleteKafka, deleteTopics, endOperator},
		"Kafka, operator, topics":          {deleteKafka, endOperator, deleteTopics},
		"operator, topics, Kafka":          {endOperator, deleteTopics, deleteKafka},
		"operator, Kafka, topics":          {endOperator, deleteKafka, deleteTopics},
		"brokers, topics, Kafka":           {silence, deleteTopics, deleteKafka},
		"brokers, Kafka, topics":           {silence, deleteKafka, deleteTopics},
		"brokers, topics, operator, Kafka": {silence, deleteTopics, endOperator, deleteKafka},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.runClusterOperator()
			end := w.run(w.kafka, cluster)
			w.topic("orders", sized(1, 1))
			w.until("the topic is ready", func() bool { return w.states()["True"] == 1 })
			w.deleteNamespace()
			for _, step := range steps {
				step(w, end)
			}
			w.until("the object is gone", func() bool { return w.isGone("orders") })
		})
	}
}
