package apitest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestATopicIsCreatedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", named("Orders", sized(3, 2, "retention.ms", "1000")), "strimzi.io/topic-operator")
	w.reconcile("orders")
	id := w.holds("Orders", 3, 2, "retention.ms", "1000")
	w.reports("orders", "")
	topic := w.read("orders")
	if topic.Status.TopicName != "Orders" || topic.Status.TopicID != id.String() || topic.Status.ObservedGeneration != topic.Generation {
		t.Errorf("status is %+v", topic.Status)
	}
	if len(topic.Finalizers) != 1 || topic.Finalizers[0] != ours {
		t.Errorf("finalizers are %v", topic.Finalizers)
	}
	if !w.said("TopicCreated") {
		t.Error("no event tells of the creation")
	}
	w.atRest("orders")
	w.respecify("orders", named("Orders", sized(5, 2, "cleanup.policy", "compact")))
	w.reconcile("orders")
	if after := w.holds("Orders", 5, 2, "cleanup.policy", "compact"); after != id {
		t.Errorf("the id was %s and is %s", id, after)
	}
	w.atRest("orders")
	w.deleteTopic("orders")
	w.reconcile("orders")
	if names := w.kafka.Names(); len(names) > 0 || !w.isGone("orders") {
		t.Errorf("Kafka still has %v", names)
	}
	if !w.said("TopicDeleted") {
		t.Error("no event tells of the deletion")
	}
}

func TestATopicThatOthersHaveCreatedIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.kafka.Hold("orders", 3, 2, map[string]string{"segment.bytes": "1"})
	w.topic("orders", sized(3, 2, "retention.ms", "1.0"))
	w.kafka.Change("orders", func(t *topics.Topic) { t.Config["retention.ms"] = "1" })
	w.reconcile("orders")
	w.reports("orders", "")
	if after := w.holds("orders", 3, 2, "retention.ms", "1"); after != id {
		t.Errorf("the id was %s and is %s", id, after)
	}
	w.atRest("orders")
}

func TestWhatOthersChangeIsUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(3, 2, "retention.ms", "1000"))
	w.reconcile("orders")
	w.later("orders")
	w.kafka.Change("orders", func(t *topics.Topic) {
		t.Config = map[string]string{"retention.ms": "2", "segment.bytes": "1", "leader.replication.throttled.replicas": "*"}
	})
	w.later("orders")
	w.holds("orders", 3, 2, "retention.ms", "1000", "leader.replication.throttled.replicas", "*")
	w.atRest("orders")
}

func TestATopicThatVanishedInKafkaIsCreatedAgainAndSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(3, 2))
	w.reconcile("orders")
	w.later("orders")
	before := w.read("orders").Status.TopicID
	w.kafka.Remove("orders")
	w.later("orders")
	id := w.holds("orders", 3, 2)
	if now := w.read("orders").Status.TopicID; now != id.String() || now == before {
		t.Errorf("the id in the status was %s and is %s", before, now)
	}
	w.reports("orders", "")
	if !w.said("TopicRecreated") || !w.has("orders", condition.Warning, "TopicRecreated") {
		t.Error("nothing tells that records are lost")
	}
	w.atRest("orders")
	if !w.has("orders", condition.Warning, "TopicRecreated") {
		t.Error("the warning is gone after a minute")
	}
	w.clock.SetTime(w.clock.Now().Add(24 * time.Hour))
	w.reconcile("orders")
	if w.has("orders", condition.Warning, "TopicRecreated") {
		t.Error("the warning is there after a day")
	}
}

func TestWhatCannotBeDoneSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec            kafkav1.KafkaTopicSpec
		reason, message string
		holds           func(*world)
	}{
		"fewer partitions":       {sized(2, 2, "retention.ms", "2"), "NotSupported", "3 partitions", func(w *world) { w.holds("orders", 3, 2, "retention.ms", "2") }},
		"other replicas":         {sized(4, 3), "NotSupported", "2 replicas", func(w *world) { w.holds("orders", 4, 2) }},
		"another name":           {named("renamed", sized(4, 2)), "NotSupported", "renamed", func(w *world) { w.holds("orders", 4, 2) }},
		"a config Kafka rejects": {sized(4, 2, "retention.ms", "1 week", "segment.bytes", "1"), "KafkaError", "none of 3 properties is changed", func(w *world) { w.holds("orders", 4, 2, "max.message.bytes", "7") }},
		"an unknown property":    {sized(3, 2, "no.such.key", "1"), "KafkaError", "Correct the spec", func(w *world) { w.holds("orders", 3, 2, "max.message.bytes", "7") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.topic("orders", sized(3, 2, "max.message.bytes", "7"))
			w.reconcile("orders")
			w.respecify("orders", c.spec)
			w.reconcile("orders")
			if message := w.reports("orders", c.reason); !strings.Contains(message, c.message) {
				t.Errorf("message %q does not have %q", message, c.message)
			}
			c.holds(w)
			if status := w.read("orders").Status; status.TopicName != "orders" || status.TopicID == "" {
				t.Errorf("status is %+v", status)
			}
			before := w.read("orders").ResourceVersion
			w.reconcile("orders")
			w.later("orders")
			if after := w.read("orders").ResourceVersion; after != before {
				t.Error("the status is written again")
			}
			w.respecify("orders", sized(4, 2))
			w.reconcile("orders")
			w.reports("orders", "")
			w.holds("orders", 4, 2)
		})
	}
}

func TestATopicThatCannotBeCreatedSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec   kafkav1.KafkaTopicSpec
		reason string
	}{
		"a name that Kafka does not take":        {named("a b", sized(1, 1)), "NotSupported"},
		"a name that collides":                   {named("taken_name", sized(1, 1)), "KafkaError"},
		"more replicas than there are brokers":   {sized(1, 9), "KafkaError"},
		"a config that Kafka rejects":            {sized(1, 1, "retention.ms", "1 week"), "KafkaError"},
		"a topic that a policy of Kafka forbids": {named("forbidden", sized(1, 1)), "KafkaError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kafka.Hold("taken.name", 1, 1, nil)
			w.kafka.Refuse("forbidden", kerr.PolicyViolation)
			w.topic("orders", c.spec)
			w.reconcile("orders")
			w.reports("orders", c.reason)
			if names := w.kafka.Names(); len(names) != 1 {
				t.Errorf("Kafka has %v", names)
			}
			w.respecify("orders", sized(1, 1))
			w.reconcile("orders")
			w.reports("orders", "")
			w.holds("orders", 1, 1)
		})
	}
}

func TestMoreReplicasInSyncThanThereAreIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 2, "min.insync.replicas", "3"))
	w.reconcile("orders")
	w.reports("orders", "")
	if !w.has("orders", condition.Warning, "InvalidConfig") {
		t.Errorf("conditions are %+v", w.read("orders").Status.Conditions)
	}
	w.atRest("orders")
}

func TestAKafkaThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	for reason, failure := range map[string]error{
		"KafkaUnreachable": &admin.UnreachableError{Address: "a", Err: kubetest.ErrCrash},
		"NotAuthorized":    &admin.RefusedError{Address: "a", Err: kerr.ClusterAuthorizationFailed},
		"KafkaError":       fmt.Errorf("listing topics: %w", kubetest.ErrCrash),
	} {
		for name, fail := range map[string]func(*world, error){
			"at all": func(w *world, err error) { w.kafka.Fail(err) }, "to changes": func(w *world, err error) { w.kafka.FailChanges(err) },
		} {
			t.Run(reason+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.topic("before", sized(1, 1))
				w.reconcile("before")
				id := w.read("before").Status.TopicID
				fail(w, failure)
				w.respecify("before", sized(2, 1))
				w.topic("orders", sized(1, 1))
				w.later("before", "orders")
				w.reports("before", reason)
				w.reports("orders", reason)
				if w.read("before").Status.TopicID != id {
					t.Error("the status has lost the id")
				}
				fail(w, nil)
				w.later("before", "orders")
				w.reports("before", "")
				w.reports("orders", "")
				w.holds("before", 2, 1)
				w.holds("orders", 1, 1)
				w.atRest("before", "orders")
			})
		}
	}
}

func TestATopicWithoutAKafkaWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 1))
	w.reconcile("orders")
	w.deleteKafka()
	w.reconcile("orders")
	w.reports("orders", "MissingKafka")
	if has := w.read("orders").Finalizers; len(has) > 0 {
		t.Errorf("finalizers are %v", has)
	}
	if len(w.kafka.Names()) != 1 {
		t.Error("the topic was deleted in Kafka")
	}
	w.atRest("orders")
	w.create(&kafkav1.Kafka{ObjectMeta: w.meta(cluster), Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{
		Listeners: []kafkav1.Listener{{Name: "tls", Port: 9093, Type: kafkav1.ListenerInternal, TLS: true}},
	}}})
	w.reconcile("orders")
	w.reports("orders", "")
	if w.has("orders", condition.Warning, "TopicRecreated") {
		t.Error("the topic of another Kafka is taken for one that was deleted")
	}
}

// The status tells of another Kafka of the name, or of one that the label named before, and nothing keeps the object for this one.
func TestATopicOfAnotherKafkaIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("mine", named("theirs", sized(1, 1)))
	w.reconcile("mine")
	w.change("mine", func(topic *kafkav1.KafkaTopic) { topic.Finalizers = nil })
	w.kafka.Remove("theirs")
	others := w.kafka.Hold("theirs", 1, 1, map[string]string{"retention.ms": "-1"})
	w.respecify("mine", named("mine", sized(1, 1)))
	w.restart()

	w.reconcile("mine", "mine")
	w.later("mine")

	if status := w.read("mine").Status; status.TopicName != "mine" {
		t.Errorf("the status is about topic %s", status.TopicName)
	}
	w.reports("mine", "")
	w.deleteTopic("mine")
	w.reconcile("mine")
	got, isHeld := w.kafka.Held("theirs")
	if _, isLeft := w.kafka.Held("mine"); isLeft || !isHeld || got.ID != others || got.Config["retention.ms"] != "-1" {
		t.Errorf("Kafka has %v, theirs with %v; want it as it was, and no mine", w.kafka.Names(), got.Config)
	}
}

// Between the two writes the finalizer would have the name in the status believed.
func TestTheTopicOfAnotherKafkaLeavesTheStatusBeforeTheFinalizerIsPut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("mine", named("theirs", sized(1, 1)))
	w.reconcile("mine")
	w.change("mine", func(topic *kafkav1.KafkaTopic) { topic.Finalizers = nil })
	w.respecify("mine", named("mine", sized(1, 1)))
	w.restart()

	w.reconcile("mine")

	if topic := w.read("mine"); topic.Status.TopicName == "theirs" || topic.Status.TopicID != "" || len(topic.Finalizers) > 0 {
		t.Errorf("finalizers %q, status %+v; want the status to be cleared first", topic.Finalizers, topic.Status)
	}
}

func TestATopicThatIsPausedIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 1))
	w.reconcile("orders")
	w.annotate("orders", "strimzi.io/pause-reconciliation", "true")
	w.respecify("orders", sized(5, 1))
	w.reconcile("orders")
	w.holds("orders", 1, 1)
	if !w.has("orders", condition.ReconciliationPaused, "ReconciliationPaused") || w.read("orders").Status.TopicID == "" {
		t.Errorf("status is %+v", w.read("orders").Status)
	}
	w.atRest("orders")
	w.deleteTopic("orders")
	w.reconcile("orders")
	w.later("orders")
	if w.isGone("orders") || len(w.kafka.Names()) != 1 {
		t.Fatal("a topic was deleted that is paused")
	}
	w.annotate("orders", "strimzi.io/pause-reconciliation", "false")
	w.reconcile("orders")
	if !w.isGone("orders") || len(w.kafka.Names()) != 0 {
		t.Error("a topic is not deleted that is no longer paused")
	}
}

func TestATopicThatIsNotManagedIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 1))
	w.reconcile("orders")
	w.annotate("orders", "strimzi.io/managed", "false")
	w.respecify("orders", sized(5, 1))
	w.reconcile("orders")
	w.holds("orders", 1, 1)
	topic := w.read("orders")
	if !w.has("orders", condition.Unmanaged, "Unmanaged") || topic.Status.TopicID != "" || topic.Status.TopicName != "" || len(topic.Finalizers) > 0 {
		t.Errorf("finalizers are %v, status is %+v", topic.Finalizers, topic.Status)
	}
	w.atRest("orders")
	w.annotate("orders", "strimzi.io/managed", "true")
	w.reconcile("orders")
	w.holds("orders", 5, 1)
	w.reports("orders", "")
	w.annotate("orders", "strimzi.io/managed", "false")
	w.deleteTopic("orders")
	w.reconcile("orders")
	if !w.isGone("orders") || len(w.kafka.Names()) != 1 {
		t.Error("a topic was deleted that is not managed")
	}
}

func TestADeletionWaitsUntilKafkaDeletes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set    func(*world, bool)
		reason string
	}{
		"deletion is disabled": {func(w *world, is bool) { w.kafka.KeepTopics(is) }, "KafkaError"},
		"Kafka does not answer": {func(w *world, is bool) {
			w.kafka.FailChanges(nil)
			if is {
				w.kafka.FailChanges(&admin.UnreachableError{Address: "a", Err: kubetest.ErrCrash})
			}
		}, "KafkaUnreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.topic("orders", sized(1, 1))
			w.reconcile("orders")
			c.set(w, true)
			w.deleteTopic("orders")
			w.reconcile("orders")
			if message := w.reports("orders", c.reason); !strings.Contains(message, "strimzi.io/managed to false") {
				t.Errorf("message %q does not say what to do", message)
			}
			version := w.read("orders").ResourceVersion
			w.later("orders")
			if w.isGone("orders") || w.read("orders").ResourceVersion != version {
				t.Fatal("the object is gone, or was written again")
			}
			c.set(w, false)
			w.later("orders")
			if !w.isGone("orders") || len(w.kafka.Names()) != 0 {
				t.Error("the topic is not deleted afterwards")
			}
		})
	}
}

func TestATopicIsDeletedOnlyWithTheObjectThatIsItsOwn(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*world){
		"others have created it again": func(w *world) { w.kafka.Hold("orders", 1, 1, nil) },
		"it was never known": func(w *world) {
			w.topic("other", named("known", sized(1, 1)))
			w.kafka.Hold("orders", 1, 1, nil)
			w.change("orders", func(t *kafkav1.KafkaTopic) { t.Status = kafkav1.KafkaTopicStatus{} })
			topic := w.read("orders")
			topic.Status = kafkav1.KafkaTopicStatus{}
			if err := w.person.Status().Update(w.t.Context(), topic); err != nil {
				w.t.Fatal(err)
			}
		},
		"its Kafka is deleted": func(w *world) { w.deleteKafka() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.topic("orders", sized(1, 1))
			w.reconcile("orders")
			arrange(w)
			w.restart()
			w.deleteTopic("orders")
			w.reconcile("orders")
			if !w.isGone("orders") {
				t.Errorf("the object stays: %+v", w.read("orders").Finalizers)
			}
			if len(w.kafka.Names()) != 1 {
				t.Error("the topic was deleted in Kafka")
			}
		})
	}
}

func TestTopicsOfKafkasOwnAreNeverDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.Hold("__consumer_offsets", 50, 3, map[string]string{"cleanup.policy": "compact"})
	w.topic("offsets", named("__consumer_offsets", sized(50, 3, "retention.ms", "5")))
	w.reconcile("offsets")
	w.reports("offsets", "")
	w.holds("__consumer_offsets", 50, 3, "cleanup.policy", "compact", "retention.ms", "5")
	w.deleteTopic("offsets")
	w.reconcile("offsets")
	if !w.isGone("offsets") || len(w.kafka.Names()) != 1 || !w.said("TopicKept") {
		t.Error("a topic of Kafka's own was deleted, or nothing says that it is kept")
	}
}

func TestATopicWhoseLabelChangesStaysInKafka(t *testing.T) {
	t.Parallel()
	for to, labels := range map[string]map[string]string{"to another cluster": {"strimzi.io/cluster": "second"}, "to none": nil} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			operator := w.run(w.kafka, cluster)
			w.topic("orders", sized(1, 1))
			w.until("the topic is created", func() bool { return len(w.kafka.Names()) == 1 })
			w.until("its status has the id", func() bool { return w.read("orders").Status.TopicID != "" })
			w.change("orders", func(t *kafkav1.KafkaTopic) { t.Labels = labels })
			w.until("it is let go", func() bool { return len(w.read("orders").Finalizers) == 0 })
			w.reports("orders", "ClusterLabelChanged")
			w.deleteTopic("orders")
			w.until("it is gone", func() bool { return w.isGone("orders") })
			operator()
			if len(w.kafka.Names()) != 1 {
				t.Error("the topic was deleted in Kafka")
			}
		})
	}
}

func TestATopicThatItsOwnerLeavesBehindStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := &kafkav1.Kafka{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, owner); err != nil {
		t.Fatal(err)
	}
	w.topic("orders", sized(1, 1))
	w.change("orders", func(t *kafkav1.KafkaTopic) {
		t.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: cluster, UID: owner.UID}}
	})
	w.reconcile("orders")
	if err := w.person.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	w.reconcile("orders")
	if w.isGone("orders") || len(w.kafka.Names()) != 1 {
		t.Error("the topic was deleted")
	}
}

func TestATopicThatOthersCreateMeanwhileIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("before", sized(1, 1))
	w.reconcile("before")
	id := w.kafka.Hold("orders", 1, 1, nil)
	w.topic("orders", sized(2, 1))
	w.reconcile("orders")
	if status := w.read("orders").Status; status.TopicID != "" || w.said("KafkaError") {
		t.Errorf("status is %+v", status)
	}
	w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	w.reconcile("orders")
	w.reports("orders", "")
	if after := w.holds("orders", 2, 1); after != id {
		t.Error("the topic was created again")
	}
	w.atRest("orders")
}

func TestATopicThatKafkaHasAndDoesNotListIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kafka.Refuse("orders", kerr.TopicAlreadyExists)
	w.topic("orders", sized(1, 1))
	w.reconcile("orders")
	w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	w.reconcile("orders")
	w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	w.reconcile("orders")
	w.reports("orders", "KafkaError")
}

func TestATopicThatOthersDeleteMeanwhileIsCreatedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.topic("orders", sized(1, 1))
	w.reconcile("orders")
	w.kafka.Remove("orders")
	w.respecify("orders", sized(2, 1))
	w.reconcile("orders")
	w.clock.SetTime(w.clock.Now().Add(6 * time.Second))
	w.reconcile("orders")
	w.holds("orders", 2, 1)
	if !w.has("orders", condition.Warning, "TopicRecreated") {
		t.Error("nothing tells that records are lost")
	}
}
