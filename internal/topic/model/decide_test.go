package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/topic/model"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func id(number byte) topics.ID { return topics.ID{15: number} }

// of is a KafkaTopic that was created some minutes after noon and is kept for its Kafka.
func of(name string, minute int, changes ...func(*kafkav1.KafkaTopic)) *kafkav1.KafkaTopic {
	topic := &kafkav1.KafkaTopic{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kafka", Name: name, UID: "uid", Labels: map[string]string{"strimzi.io/cluster": "my-cluster"},
		Finalizers: []string{"my-cluster.keyturn.dev/kafka-topic"}, CreationTimestamp: metav1.NewTime(noon().Add(time.Duration(minute) * time.Minute)),
	}}
	for _, change := range changes {
		change(topic)
	}
	return topic
}

func annotated(key, value string) func(*kafkav1.KafkaTopic) {
	return func(t *kafkav1.KafkaTopic) { t.Annotations = map[string]string{key: value} }
}

func unmanaged() func(*kafkav1.KafkaTopic) { return annotated("strimzi.io/managed", "false") }

func paused() func(*kafkav1.KafkaTopic) {
	return annotated("strimzi.io/pause-reconciliation", "true")
}

func known(name string, number byte) func(*kafkav1.KafkaTopic) {
	return func(t *kafkav1.KafkaTopic) { t.Status.TopicName, t.Status.TopicID = name, id(number).String() }
}

func deleted(t *kafkav1.KafkaTopic) { t.DeletionTimestamp = new(metav1.NewTime(noon())) }

func free(t *kafkav1.KafkaTopic) { t.Finalizers = nil }

func named(name string) func(*kafkav1.KafkaTopic) {
	return func(t *kafkav1.KafkaTopic) { t.Spec.TopicName = name }
}

func sized(partitions, replicas int32) func(*kafkav1.KafkaTopic) {
	return func(t *kafkav1.KafkaTopic) { t.Spec.Partitions, t.Spec.Replicas = &partitions, &replicas }
}

func configured(pairs ...string) func(*kafkav1.KafkaTopic) {
	return func(t *kafkav1.KafkaTopic) {
		t.Spec.Config = kafkav1.TopicConfig{}
		for i := 0; i < len(pairs); i += 2 {
			t.Spec.Config[pairs[i]] = kafkav1.TopicConfigValue(pairs[i+1])
		}
	}
}

func held(number byte, partitions int32, replicas int16, pairs ...string) *topics.Topic {
	config := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		config[pairs[i]] = pairs[i+1]
	}
	return &topics.Topic{ID: id(number), Partitions: partitions, Fewest: replicas, Most: replicas, Config: config}
}

func observed(topic *kafkav1.KafkaTopic, in *topics.Topic, others ...*kafkav1.KafkaTopic) model.Observed {
	return model.Observed{Topic: topic, Cluster: "my-cluster", Kafka: &kafkav1.Kafka{}, Others: others, Held: in, Now: noon()}
}

// expected is what of a decision counts: the texts of remarks may change.
type expected struct {
	state       condition.Type
	problem     model.Reason
	warnings    []model.Reason
	id          string
	keep, letGo bool
	create      *topics.New
	partitions  int32
	config      topics.ConfigChange
	delete      bool
	event       model.Reason
}

func check(t *testing.T, d model.Decision, want expected) {
	t.Helper()
	if want.state == "" {
		want.state = condition.Ready
	}
	got := expected{
		state: d.State, id: d.ID, keep: d.Keep, letGo: d.LetGo, create: d.Create, partitions: d.Partitions, config: d.Config, delete: d.Delete != nil,
	}
	if d.Problem != nil {
		got.problem = d.Problem.Reason
	}
	if d.Event != nil {
		got.event = d.Event.Reason
	}
	for _, warning := range d.Warnings {
		got.warnings = append(got.warnings, warning.Reason)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(expected{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("decision (-want +got):\n%s\n%+v", diff, d.Problem)
	}
}

func TestATopicIsMadeWhatItsObjectSays(t *testing.T) {
	t.Parallel()
	one, other := id(1).String(), id(2).String()
	type config = map[string]string
	for name, c := range map[string]struct {
		observed model.Observed
		want     expected
	}{
		"it does not exist": {
			observed(of("a", 0, sized(3, 2), configured("retention.ms", "1")), nil),
			expected{keep: true, create: &topics.New{Name: "a", Partitions: 3, Replicas: 2, Config: config{"retention.ms": "1"}}},
		},
		"it does not exist, and brokers decide": {
			observed(of("a", 0, named("A.b")), nil),
			expected{keep: true, create: &topics.New{Name: "A.b", Partitions: -1, Replicas: -1}},
		},
		"it exists and is as it shall be": {
			observed(of("a", 0, known("a", 1), sized(3, 2), configured("retention.ms", "1.0")), held(1, 3, 2, "retention.ms", "1")),
			expected{keep: true, id: one},
		},
		"it exists, and others have created it": {
			observed(of("a", 0, free), held(1, 3, 2)), expected{keep: true, id: one},
		},
		"as many partitions more as Kafka adds at a time": {
			observed(of("a", 0, known("a", 1), sized(10_001, 1)), held(1, 1, 1)), expected{keep: true, id: one, partitions: 10_001},
		},
		"one partition more than that": {
			observed(of("a", 0, known("a", 1), sized(10_002, 1)), held(1, 1, 1)), expected{keep: true, id: one, problem: model.NotSupported},
		},
		"as many partitions as can be written": {
			observed(of("a", 0, known("a", 1), sized(1<<31-1, 1)), held(1, 1, 1)), expected{keep: true, id: one, problem: model.NotSupported},
		},
		"segments with which brokers of Kafka 4 do not start": {
			observed(of("a", 0, known("a", 1), configured("segment.bytes", "1048575")), held(1, 1, 1, "segment.bytes", "1048575")),
			expected{keep: true, id: one, warnings: []model.Reason{model.InvalidConfig}},
		},
		"the smallest segments with which they start": {
			observed(of("a", 0, known("a", 1), configured("segment.bytes", "1048576")), held(1, 1, 1, "segment.bytes", "1048576")), expected{keep: true, id: one},
		},
		"a value that is as long as it may be": {
			observed(of("a", 0, known("a", 1), configured("b", strings.Repeat("x", 16<<10))), held(1, 1, 1, "b", strings.Repeat("x", 16<<10))), expected{keep: true, id: one},
		},
		"a value that brokers close the connection for": {
			observed(of("a", 0, known("a", 1), configured("b", strings.Repeat("x", 16<<10+1))), held(1, 1, 1)), expected{id: one, problem: model.NotSupported},
		},
		"a property whose name they close it for": {
			observed(of("a", 0, known("a", 1), configured(strings.Repeat("x", 40_000), "b")), held(1, 1, 1)), expected{id: one, problem: model.NotSupported},
		},
		"the status is that of another Kafka, and this one has the topic of that name": {
			observed(of("a", 0, known("b", 9), free), held(1, 3, 2)), expected{keep: true, id: one},
		},
		"brokers decided how many partitions and replicas": {
			observed(of("a", 0, known("a", 1)), held(1, 3, 2)), expected{keep: true, id: one},
		},
		"it gets partitions": {
			observed(of("a", 0, known("a", 1), sized(5, 2)), held(1, 3, 2)), expected{keep: true, id: one, partitions: 5},
		},
		"fewer partitions, and the config is changed": {
			observed(of("a", 0, known("a", 1), sized(2, 2), configured("retention.ms", "2")), held(1, 3, 2)),
			expected{keep: true, id: one, problem: model.NotSupported, config: topics.ConfigChange{Set: config{"retention.ms": "2"}}},
		},
		"other replicas, and partitions are added": {
			observed(of("a", 0, known("a", 1), sized(5, 3)), held(1, 3, 2)),
			expected{keep: true, id: one, problem: model.NotSupported, partitions: 5},
		},
		"replicas that differ": {
			observed(of("a", 0, known("a", 1), sized(1, 3)), &topics.Topic{ID: id(1), Partitions: 1, Fewest: 2, Most: 3}),
			expected{keep: true, id: one, problem: model.NotSupported},
		},
		"another name, and the config is changed": {
			observed(of("a", 0, known("a", 1), named("b"), configured("retention.ms", "2")), held(1, 3, 2)),
			expected{keep: true, id: one, problem: model.NotSupported, config: topics.ConfigChange{Set: config{"retention.ms": "2"}}},
		},
		"another name before it was created": {
			observed(of("a", 0, named("b"), func(t *kafkav1.KafkaTopic) { t.Status.TopicName = "a" }), nil),
			expected{keep: true, create: &topics.New{Name: "b", Partitions: -1, Replicas: -1}},
		},
		"others have changed its config": {
			observed(of("a", 0, known("a", 1), configured("retention.ms", "1")), held(1, 3, 2, "retention.ms", "2", "segment.ms", "1", "leader.replication.throttled.replicas", "*")),
			expected{keep: true, id: one, config: topics.ConfigChange{Set: config{"retention.ms": "1"}, Remove: []string{"segment.ms"}}},
		},
		"brokers set the config of one of Kafka's own": {
			observed(of("offsets", 0, known("__consumer_offsets", 1), named("__consumer_offsets"), configured("retention.ms", "1")), held(1, 3, 2, "cleanup.policy", "compact")),
			expected{keep: true, id: one, config: topics.ConfigChange{Set: config{"retention.ms": "1"}}},
		},
		"it was deleted in Kafka": {
			observed(of("a", 0, known("a", 1)), nil), expected{keep: true, id: one, create: &topics.New{Name: "a", Partitions: -1, Replicas: -1}},
		},
		"it was deleted in Kafka and created again": {
			observed(of("a", 0, known("a", 1)), held(2, 1, 1)),
			expected{keep: true, id: other, warnings: []model.Reason{model.TopicRecreated}, event: model.TopicRecreated},
		},
		"its id is that of another Kafka": {
			observed(of("a", 0, known("a", 1), free), held(2, 1, 1)), expected{keep: true, id: other},
		},
		"more replicas must be in sync than there are": {
			observed(of("a", 0, known("a", 1), configured("min.insync.replicas", "3")), held(1, 1, 2, "min.insync.replicas", "3")),
			expected{keep: true, id: one, warnings: []model.Reason{model.InvalidConfig}},
		},
		"more replicas must be in sync than there shall be": {
			observed(of("a", 0, sized(1, 1), configured("min.insync.replicas", "2")), nil),
			expected{keep: true, warnings: []model.Reason{model.InvalidConfig}, create: &topics.New{Name: "a", Partitions: 1, Replicas: 1, Config: config{"min.insync.replicas": "2"}}},
		},
		"Kafka needs it and creates it itself": {
			observed(of("a", 0, named("__consumer_offsets")), nil), expected{keep: true, problem: model.NotSupported},
		},
		"Kafka finds what it needs by the number of partitions": {
			observed(of("a", 0, known("__consumer_offsets", 1), sized(100, 3)), held(1, 50, 3, "cleanup.policy", "compact")),
			expected{keep: true, id: one, problem: model.NotSupported},
		},
		"what Kafka needs is not deleted by age": {
			observed(of("a", 0, known("__transaction_state", 1), configured("cleanup.policy", "delete", "retention.ms", "1")), held(1, 50, 3, "cleanup.policy", "compact")),
			expected{keep: true, id: one, problem: model.NotSupported, config: topics.ConfigChange{Set: config{"retention.ms": "1"}}},
		},
		"others have created it with other properties": {
			observed(of("a", 0, configured("retention.ms", "1")), held(1, 1, 1, "retention.ms", "-1", "cleanup.policy", "compact")),
			expected{keep: true, id: one, event: model.TopicAdopted, config: topics.ConfigChange{Set: config{"retention.ms": "1"}, Remove: []string{"cleanup.policy"}}},
		},
		"others have created it as it shall be": {
			observed(of("a", 0, configured("retention.ms", "1")), held(1, 1, 1, "retention.ms", "1")), expected{keep: true, id: one},
		},
		"as many must be in sync as there are": {
			observed(of("a", 0, known("a", 1), configured("min.insync.replicas", "2")), held(1, 1, 2, "min.insync.replicas", "2")), expected{keep: true, id: one},
		},
		"Kafka takes no such name": {observed(of("a", 0, named("a b")), nil), expected{problem: model.NotSupported}},
		"there is no Kafka": {
			model.Observed{Topic: of("a", 0, known("a", 1)), Cluster: "my-cluster", Now: noon()}, expected{problem: model.MissingKafka, letGo: true},
		},
		"it is not known what Kafka holds": {
			model.Observed{Topic: of("a", 0, known("a", 1)), Cluster: "my-cluster", Kafka: &kafkav1.Kafka{}, Unknown: &model.Remark{Reason: model.KafkaUnreachable}, Now: noon()},
			expected{problem: model.KafkaUnreachable, keep: true, id: one},
		},
		"it is not managed": {observed(of("a", 0, known("a", 1), unmanaged()), nil), expected{state: condition.Unmanaged, letGo: true}},
		"it is paused": {
			observed(of("a", 0, known("a", 1), paused(), sized(9, 1)), held(1, 1, 1)), expected{state: condition.ReconciliationPaused, id: one},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, model.Decide(c.observed), c.want)
		})
	}
}

func TestOneOfTheObjectsOfATopicManagesIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic, other *kafkav1.KafkaTopic
		manages      bool
	}{
		"the older one":                                       {of("b", 1, named("t")), of("a", 2, named("t")), true},
		"not the younger one":                                 {of("a", 2, named("t")), of("b", 1, named("t")), false},
		"of the same second the one with a topic":             {of("b", 1, named("t"), known("t", 1)), of("a", 1, named("t")), true},
		"of the same second not the one without":              {of("a", 1, named("t")), of("b", 1, named("t"), known("t", 1)), false},
		"of the same second the first by name":                {of("a", 1, named("t")), of("b", 1, named("t")), true},
		"of the same second not the second by name":           {of("b", 1, named("t")), of("a", 1, named("t")), false},
		"the younger one if the other is not managed":         {of("a", 2, named("t")), of("b", 1, named("t"), unmanaged()), true},
		"the younger one if the other is being deleted":       {of("a", 2, named("t")), of("b", 1, named("t"), deleted), true},
		"not the younger one if the other is paused":          {of("a", 2, named("t")), of("b", 1, named("t"), paused()), false},
		"the younger one if the other only asks for the name": {of("a", 2, named("t")), of("b", 1, named("t"), known("b", 3)), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := model.Decide(observed(c.topic, held(1, 1, 1), c.other))
			if manages := d.Problem == nil; manages != c.manages {
				t.Fatalf("manages it is %t: %+v", manages, d.Problem)
			}
			if c.manages {
				return
			}
			check(t, d, expected{problem: model.ResourceConflict, letGo: true})
			if !strings.Contains(d.Problem.Message, c.other.Name) {
				t.Errorf("message %q does not name the other", d.Problem.Message)
			}
		})
	}
}

func TestADeletedObjectTakesOnlyItsOwnTopicAlong(t *testing.T) {
	t.Parallel()
	one := id(1).String()
	for name, c := range map[string]struct {
		observed model.Observed
		want     expected
	}{
		"its own": {
			observed(of("a", 0, known("a", 1), deleted), held(1, 1, 1)), expected{id: one, letGo: true, delete: true, event: model.TopicDeleted},
		},
		"its own, which it cannot rename": {
			observed(of("a", 0, known("a", 1), named("b"), deleted), held(1, 1, 1)), expected{id: one, letGo: true, delete: true, event: model.TopicDeleted},
		},
		"its own, which Strimzi has created": {
			observed(of("a", 0, known("a", 1), deleted, func(t *kafkav1.KafkaTopic) { t.Finalizers = []string{"strimzi.io/topic-operator"} }), held(1, 1, 1)),
			expected{id: one, letGo: true, delete: true, event: model.TopicDeleted},
		},
		"not one that others have created": {
			observed(of("a", 0, known("a", 1), deleted), held(2, 1, 1)), expected{id: one, letGo: true, event: model.TopicKept},
		},
		"not one that it never knew": {observed(of("a", 0, deleted), held(1, 1, 1)), expected{letGo: true, event: model.TopicKept}},
		"not one that it never knew, of a Kafka that does not answer": {
			model.Observed{Topic: of("a", 0, deleted), Cluster: "my-cluster", Kafka: &kafkav1.Kafka{}, Unknown: &model.Remark{Reason: model.KafkaUnreachable}, Now: noon()},
			expected{letGo: true, event: model.TopicKept},
		},
		"none where there is none": {observed(of("a", 0, deleted), nil), expected{letGo: true}},
		"none that is gone":        {observed(of("a", 0, known("a", 1), deleted), nil), expected{id: one, letGo: true}},
		"not one that another manages": {
			observed(of("a", 0, known("a", 1), deleted), held(1, 1, 1), of("b", 1, named("a"))), expected{id: one, letGo: true, event: model.TopicKept},
		},
		"not one that another asks for": {
			observed(of("a", 0, known("a", 1), deleted), held(1, 1, 1), of("b", 1, named("a"), known("c", 2))), expected{id: one, letGo: true, event: model.TopicKept},
		},
		"one that another is about and does not manage": {
			observed(of("a", 0, known("a", 1), deleted), held(1, 1, 1), of("b", 1, named("a"), unmanaged())), expected{id: one, letGo: true, delete: true, event: model.TopicDeleted},
		},
		"one whose other object is deleted, too": {
			observed(of("a", 0, known("a", 1), deleted), held(1, 1, 1), of("b", 1, named("a"), deleted)), expected{id: one, letGo: true, delete: true, event: model.TopicDeleted},
		},
		"none of Kafka's own": {
			observed(of("a", 0, known("__consumer_offsets", 1), named("__consumer_offsets"), deleted), held(1, 1, 1)), expected{id: one, letGo: true, event: model.TopicKept},
		},
		"none that is not managed": {
			observed(of("a", 0, known("a", 1), deleted, unmanaged()), held(1, 1, 1)), expected{id: one, letGo: true, event: model.TopicKept},
		},
		"not yet one that is paused": {
			observed(of("a", 0, known("a", 1), deleted, paused()), held(1, 1, 1)), expected{state: condition.ReconciliationPaused, id: one},
		},
		"none of a Kafka that is gone": {
			model.Observed{Topic: of("a", 0, known("a", 1), deleted), Cluster: "my-cluster", Now: noon()}, expected{id: one, letGo: true, event: model.KafkaDeleted},
		},
		"none of a Kafka that is gone, although it is paused: there is nothing to wait for": {
			model.Observed{Topic: of("a", 0, known("a", 1), deleted, paused()), Cluster: "my-cluster", Now: noon()}, expected{id: one, letGo: true, event: model.KafkaDeleted},
		},
		"not yet one of a Kafka that does not answer": {
			model.Observed{Topic: of("a", 0, known("a", 1), deleted), Cluster: "my-cluster", Kafka: &kafkav1.Kafka{}, Unknown: &model.Remark{Reason: model.KafkaUnreachable}, Now: noon()},
			expected{id: one, problem: model.KafkaUnreachable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := model.DecideDeletion(c.observed)
			check(t, d, c.want)
			if d.Delete != nil && *d.Delete != id(1) {
				t.Errorf("deletes %s", d.Delete)
			}
		})
	}
}

// Kafka counts replicas with 16 bits: more of them are asked for, and rejected, as the most that there can be.
func TestTheNameInTheStatusCountsWhereTheObjectIsKept(t *testing.T) {
	t.Parallel()
	moved := func(t *kafkav1.KafkaTopic) { t.Labels["strimzi.io/cluster"] = "other" }
	foreign := func(t *kafkav1.KafkaTopic) { t.Finalizers = []string{"strimzi.io/topic-operator"} }
	for name, c := range map[string]struct {
		topic *kafkav1.KafkaTopic
		want  string
	}{
		"it is kept for this Kafka":            {of("a", 0, known("b", 1)), "b"},
		"Strimzi's operator has kept it":       {of("a", 0, known("b", 1), foreign), "b"},
		"nothing keeps it":                     {of("a", 0, known("b", 1), free), "a"},
		"it is kept for the Kafka it has left": {of("a", 0, known("b", 1), moved), "a"},
	} {
		if got := model.Name(c.topic); got != c.want {
			t.Errorf("%s: the topic is %s, want %s", name, got, c.want)
		}
	}
}

func TestAFalseThatIsSpelledOtherwiseLeavesATopicAlone(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"false", "False", "FALSE"} {
		if d := model.DecideDeletion(observed(of("a", 0, known("a", 1), deleted, annotated("strimzi.io/managed", value)), held(1, 1, 1))); d.Delete != nil {
			t.Errorf("%q: the topic is deleted", value)
		}
	}
}

func TestMoreReplicasThanKafkaCountsAreTheMost(t *testing.T) {
	t.Parallel()
	for wanted, asked := range map[int32]int16{70_000: 1<<15 - 1, 1<<16 + 1: 1<<15 - 1, 3: 3} {
		if d := model.Decide(observed(of("a", 0, sized(1, wanted)), nil)); d.Create == nil || d.Create.Replicas != asked {
			t.Errorf("for %d replicas Kafka is asked for %+v, want %d", wanted, d.Create, asked)
		}
	}
}

func TestThatRecordsAreLostIsSaidForADay(t *testing.T) {
	t.Parallel()
	topic := of("a", 0, known("a", 1))
	o := observed(topic, nil)
	d := model.Decide(o)
	d.Created(*held(2, 1, 1), o.Now)
	check(t, model.Decision{State: d.State, Warnings: d.Warnings, Event: d.Event, ID: d.ID},
		expected{id: id(2).String(), warnings: []model.Reason{model.TopicRecreated}, event: model.TopicRecreated})
	topic.Status = model.Status(o, d)
	for _, c := range []struct {
		after time.Duration
		said  int
	}{{time.Minute, 1}, {24*time.Hour - time.Second, 1}, {24 * time.Hour, 0}} {
		later := observed(topic, held(2, 1, 1))
		later.Now = noon().Add(c.after)
		again := model.Decide(later)
		if len(again.Warnings) != c.said || again.Event != nil {
			t.Errorf("after %s the warnings are %v, the event %v", c.after, again.Warnings, again.Event)
		}
		if c.said == 0 {
			continue
		}
		if !again.Wake.Equal(noon().Add(24 * time.Hour)) {
			t.Errorf("the next decision is due %s", again.Wake)
		}
		if diff := cmp.Diff(topic.Status, model.Status(later, again)); diff != "" {
			t.Errorf("the status changes (-before +after):\n%s", diff)
		}
	}
}

func TestTheStatusHasWhatStrimzisHas(t *testing.T) {
	t.Parallel()
	topic := of("a", 0, sized(1, 1), func(t *kafkav1.KafkaTopic) { t.Generation = 7 })
	for name, c := range map[string]struct {
		observed model.Observed
		want     kafkav1.KafkaTopicStatus
	}{
		"ready": {observed(topic, held(1, 1, 1)), kafkav1.KafkaTopicStatus{
			Conditions:         []condition.Condition{{Type: "Ready", Status: "True", LastTransitionTime: "2026-05-01T12:00:00Z"}},
			ObservedGeneration: 7, TopicName: "a", TopicID: id(1).String(),
		}},
		"not ready": {observed(topic, held(1, 2, 1)), kafkav1.KafkaTopicStatus{
			Conditions: []condition.Condition{
				{Type: "Ready", Status: "False", Reason: "NotSupported", LastTransitionTime: "2026-05-01T12:00:00Z"},
				{Type: "Stalled", Status: "True", Reason: "NotSupported", LastTransitionTime: "2026-05-01T12:00:00Z"},
			},
			ObservedGeneration: 7, TopicName: "a", TopicID: id(1).String(),
		}},
		"not managed": {observed(of("a", 0, known("a", 1), unmanaged()), held(1, 2, 1)), kafkav1.KafkaTopicStatus{
			Conditions: []condition.Condition{{Type: "Unmanaged", Status: "True", Reason: "Unmanaged", LastTransitionTime: "2026-05-01T12:00:00Z"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := model.Status(c.observed, model.Decide(c.observed))
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(condition.Condition{}, "Message")); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheForeignFinalizerGoesWithOurs(t *testing.T) {
	t.Parallel()
	const ours, foreign, other = "my-cluster.keyturn.dev/kafka-topic", "strimzi.io/topic-operator", "second.keyturn.dev/kafka-topic"
	topic := of("a", 0, func(t *kafkav1.KafkaTopic) { t.Finalizers = []string{foreign, other} })
	if !model.KeepFor(topic, "my-cluster") || !cmp.Equal(topic.Finalizers, []string{other, ours}) || model.KeepFor(topic, "my-cluster") {
		t.Errorf("finalizers are %v", topic.Finalizers)
	}
	topic.Finalizers = append(topic.Finalizers, foreign)
	if !model.LetGo(topic, "my-cluster") || !cmp.Equal(topic.Finalizers, []string{other}) || model.LetGo(topic, "my-cluster") {
		t.Errorf("finalizers are %v", topic.Finalizers)
	}
}

func TestAFactorThatBrokersChooseIsComparedWithTheMinimum(t *testing.T) {
	t.Parallel()
	for factor, want := range map[int16]int{1: 1, 3: 0} {
		d := model.Decide(observed(of("a", 0, configured("min.insync.replicas", "2")), nil))
		d.Created(topics.Topic{ID: id(1), Partitions: 1, Fewest: factor, Most: factor}, noon())
		if len(d.Warnings) != want {
			t.Errorf("with %d replicas the warnings are %+v, want %d", factor, d.Warnings, want)
		}
	}
}
