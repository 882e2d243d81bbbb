package apitest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
	"github.com/keyturn/keyturn/internal/topic/controller"
)

// apiServer is the connection that all tests share. Each test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	os.Exit(kubetest.Shared(kubetest.Definitions(), func(server *envtest.Environment) int {
		apiServer = server.Config
		return m.Run()
	}))
}

const (
	cluster = "my-cluster"
	ours    = "my-cluster.keyturn.dev/kafka-topic"
)

// world is a namespace with a Kafka of three brokers, and a topic operator.
type world struct {
	t         *testing.T
	person    client.Client
	namespace string
	clock     *clocktesting.FakePassiveClock
	kafka     *adminfake.Topics
	writer    *kubetest.Writer
	events    *events.FakeRecorder
	operator  *controller.Reconciler
	// rights are those of an operator that runs, nil for all, and observer is what it knows of its watches, nil for one of the real time.
	rights   *rest.Config
	observer *watches.Observer
}

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func newWorld(t *testing.T) *world {
	t.Helper()
	person := kubetest.Connect(t, apiServer, kafkav1.AddToScheme)
	w := &world{t: t, person: person, namespace: kubetest.Namespace(t, person, "topics-"), clock: clocktesting.NewFakePassiveClock(noon()), kafka: adminfake.NewTopics(3)}
	w.create(&kafkav1.Kafka{ObjectMeta: w.meta(cluster), Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{
		Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true}},
	}}})
	w.restart()
	return w
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
	w.writer, w.events = &kubetest.Writer{Client: kubetest.Indexed{Client: w.person, Field: controller.NameIndex, Of: controller.Index}}, events.NewFakeRecorder(1000)
	name := types.NamespacedName{Namespace: w.namespace, Name: cluster}
	w.operator = controller.New(controller.Options{
		Client: w.writer, Live: w.person, Events: w.events, Log: logr.Discard(), Clock: w.clock, Cluster: name, Metrics: controller.NewMetrics(name),
		Kafka: countingKafka{w.kafka, w.writer},
	})
}

// topic creates a KafkaTopic of the cluster.
func (w *world) topic(name string, spec kafkav1.KafkaTopicSpec, finalizers ...string) {
	w.t.Helper()
	topic := &kafkav1.KafkaTopic{ObjectMeta: w.meta(name), Spec: spec}
	topic.Labels, topic.Finalizers = map[string]string{"strimzi.io/cluster": cluster}, finalizers
	w.create(topic)
}

// sized is the spec of a topic with a config, in pairs of key and value.
func sized(partitions, replicas int32, pairs ...string) kafkav1.KafkaTopicSpec {
	spec := kafkav1.KafkaTopicSpec{Partitions: &partitions, Replicas: &replicas, Config: kafkav1.TopicConfig{}}
	for i := 0; i < len(pairs); i += 2 {
		spec.Config[pairs[i]] = kafkav1.TopicConfigValue(pairs[i+1])
	}
	return spec
}

func named(name string, spec kafkav1.KafkaTopicSpec) kafkav1.KafkaTopicSpec {
	spec.TopicName = name
	return spec
}

func (w *world) read(name string) *kafkav1.KafkaTopic {
	w.t.Helper()
	topic := &kafkav1.KafkaTopic{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, topic); err != nil {
		w.t.Fatal(err)
	}
	return topic
}

// change changes an object as a person does.
func (w *world) change(name string, to func(*kafkav1.KafkaTopic)) {
	w.t.Helper()
	for {
		topic := w.read(name)
		to(topic)
		err := w.person.Update(w.t.Context(), topic)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
}

func (w *world) respecify(name string, spec kafkav1.KafkaTopicSpec) {
	w.t.Helper()
	w.change(name, func(t *kafkav1.KafkaTopic) { t.Spec = spec })
}

func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	w.change(name, func(t *kafkav1.KafkaTopic) { metav1.SetMetaDataAnnotation(&t.ObjectMeta, key, value) })
}

func (w *world) deleteTopic(name string, options ...client.DeleteOption) {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &kafkav1.KafkaTopic{ObjectMeta: w.meta(name)}, options...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deleteKafka() {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), &kafkav1.Kafka{ObjectMeta: w.meta(cluster)}); err != nil {
		w.t.Fatal(err)
	}
}

// isGone reports whether an object has been let go.
func (w *world) isGone(name string) bool {
	w.t.Helper()
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &kafkav1.KafkaTopic{})
	return apierrors.IsNotFound(err)
}

// try reconciles a topic once.
func (w *world) try(name string) (ctrl.Result, error) {
	return w.operator.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: name}})
}

func (w *world) reconcile(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if _, err := w.try(name); err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
	}
}

// later reconciles after some time, when the next round of descriptions is due.
func (w *world) later(names ...string) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile(names...)
}

// atRest fails the test if reconciling once more writes anything.
func (w *world) atRest(names ...string) {
	w.t.Helper()
	before := w.writer.Sent
	w.reconcile(names...)
	w.later(names...)
	if wrote := w.writer.Sent - before; wrote > 0 {
		w.t.Errorf("at rest there were %d writes", wrote)
	}
}

// reports fails the test unless a topic is Ready, for an empty reason, or not Ready for this one.
func (w *world) reports(name, reason string) (message string) {
	w.t.Helper()
	status := w.read(name).Status
	for _, c := range status.Conditions {
		if c.Type == condition.Ready && (c.Status == condition.True) == (reason == "") && c.Reason == reason {
			return c.Message
		}
	}
	w.t.Errorf("topic %s does not report %q: %+v", name, reason, status.Conditions)
	return ""
}

// has reports whether a topic has a condition that is True.
func (w *world) has(name string, kind condition.Type, reason string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.read(name).Status.Conditions, func(c condition.Condition) bool {
		return c.Type == kind && c.Status == condition.True && c.Reason == reason
	})
}

// holds fails the test unless Kafka holds this under a name, and returns the id.
func (w *world) holds(name string, partitions int32, replicas int16, pairs ...string) topics.ID {
	w.t.Helper()
	want := topics.Topic{Partitions: partitions, Fewest: replicas, Most: replicas, Config: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		want.Config[pairs[i]] = pairs[i+1]
	}
	got, exists := w.kafka.Held(name)
	want.ID = got.ID
	if !exists || !got.Equal(want) {
		w.t.Errorf("Kafka holds %+v (%t), want %+v", got, exists, want)
	}
	return got.ID
}

// said reports whether an event with the reason was written since the last call.
func (w *world) said(reason string) bool {
	found := false
	for {
		select {
		case event := <-w.events.Events:
			found = found || slices.Contains(strings.Fields(event), reason)
		default:
			return found
		}
	}
}

// countingKafka counts what is changed in Kafka among the writes of the operator.
type countingKafka struct {
	admin.TopicsClient

	writer *kubetest.Writer
}

func (k countingKafka) CreateTopics(ctx context.Context, wanted []topics.New) (results map[string]admin.Creation, err error) {
	return results, k.writer.Count("create", "topics", func() error {
		results, err = k.TopicsClient.CreateTopics(ctx, wanted)
		return err
	})
}

func (k countingKafka) CreatePartitions(ctx context.Context, topic string, total int32) error {
	return k.writer.Count("create partitions of", topic, func() error { return k.TopicsClient.CreatePartitions(ctx, topic, total) })
}

func (k countingKafka) AlterConfig(ctx context.Context, topic string, change topics.ConfigChange) error {
	return k.writer.Count("configure", topic, func() error { return k.TopicsClient.AlterConfig(ctx, topic, change) })
}

func (k countingKafka) DeleteTopic(ctx context.Context, id topics.ID) error {
	return k.writer.Count("delete", id, func() error { return k.TopicsClient.DeleteTopic(ctx, id) })
}
