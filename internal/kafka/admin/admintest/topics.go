package admintest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Properties of topics that the checks change.
const (
	retention  = "retention.ms"
	maxMessage = "max.message.bytes"
)

// TopicsSubject is a cluster with one broker, and clients of it that may do everything.
type TopicsSubject struct {
	Client admin.TopicsClient
	// Unreachable is a client of a cluster that is not there.
	Unreachable admin.TopicsClient
}

// RunTopics checks a client of topics. It leaves topics behind that are named after the checks.
func RunTopics(t *testing.T, factory func(t *testing.T) TopicsSubject) {
	t.Helper()
	s := factory(t)
	for name, check := range map[string]func(*testing.T, TopicsSubject){
		"topics that differ are created together":               differingTopics,
		"a topic that Kafka does not accept stops no other":     poisonedTopic,
		"brokers say what a topic has that does not say it":     defaultTopic,
		"a topic that exists is not created again":              existingTopic,
		"more topics than fit into one request are created":     manyTopics,
		"partitions are added and not taken away":               morePartitions,
		"properties are set, changed and removed one by one":    propertiesOneByOne,
		"properties are changed all or none":                    propertiesAllOrNone,
		"only what a topic sets itself is described":            ownProperties,
		"a topic is deleted by its id and no other of its name": deletedByID,
		"a topic that does not exist is unknown":                unknownTopic,
		"a cluster that is not there is unreachable for topics": topicsUnreachable,
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

func (s TopicsSubject) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates topics, all of which Kafka accepts.
func (s TopicsSubject) create(t *testing.T, wanted ...topics.New) map[string]admin.Creation {
	t.Helper()
	created, err := s.Client.CreateTopics(t.Context(), wanted)
	s.must(t, err)
	for _, topic := range wanted {
		s.must(t, created[topic.Name].Err)
	}
	return created
}

// settlesTo waits until Kafka holds this of a topic, whatever its id is.
func (s TopicsSubject) settlesTo(t *testing.T, name string, want topics.Topic) topics.Topic {
	t.Helper()
	var got topics.Topic
	settles(t, func(ctx context.Context) (bool, error) {
		all, err := s.Client.DescribeTopics(ctx)
		got = all[name]
		want.ID = got.ID
		return err == nil && got.Equal(want), err
	})
	return got
}

// isGone waits until Kafka does not list a topic.
func (s TopicsSubject) isGone(t *testing.T, name string) {
	t.Helper()
	settles(t, func(ctx context.Context) (bool, error) {
		all, err := s.Client.DescribeTopics(ctx)
		_, exists := all[name]
		return err == nil && !exists, err
	})
}

func one(partitions int32, config map[string]string) topics.Topic {
	return topics.Topic{Partitions: partitions, Fewest: 1, Most: 1, Config: config}
}

func differingTopics(t *testing.T, s TopicsSubject) {
	config := map[string]string{retention: "1000"}
	created := s.create(t, topics.New{Name: "differs-1", Partitions: 1, Replicas: 1},
		topics.New{Name: "differs-3", Partitions: 3, Replicas: 1, Config: config})
	if created["differs-1"].Topic.ID == created["differs-3"].Topic.ID || created["differs-1"].Topic.ID.IsZero() {
		t.Errorf("ids are %s and %s", created["differs-1"].Topic.ID, created["differs-3"].Topic.ID)
	}
	for name, want := range map[string]topics.Topic{"differs-1": one(1, nil), "differs-3": one(3, config)} {
		want.ID = created[name].Topic.ID
		if got := created[name].Topic; !got.Equal(want) {
			t.Errorf("created %+v, want %+v", got, want)
		}
		if got := s.settlesTo(t, name, want); got.ID != want.ID {
			t.Errorf("id of %s is %s, and %s was created", name, got.ID, want.ID)
		}
	}
}

func poisonedTopic(t *testing.T, s TopicsSubject) {
	poisoned := map[string]topics.New{
		"config":      {Name: "poisoned-config", Partitions: 1, Replicas: 1, Config: map[string]string{retention: "1 week"}},
		"unknown key": {Name: "poisoned-key", Partitions: 1, Replicas: 1, Config: map[string]string{"no.such.key": "1"}},
		"replicas":    {Name: "poisoned-replicas", Partitions: 1, Replicas: 9},
		"name":        {Name: "poisoned name", Partitions: 1, Replicas: 1},
	}
	wanted := []topics.New{{Name: "beside.poisoned", Partitions: 1, Replicas: 1}}
	for _, topic := range poisoned {
		wanted = append(wanted, topic)
	}
	created, err := s.Client.CreateTopics(t.Context(), wanted)
	s.must(t, err)
	for _, topic := range poisoned {
		isRejected(t, created[topic.Name].Err)
	}
	s.must(t, created["beside.poisoned"].Err)
	created, err = s.Client.CreateTopics(t.Context(), []topics.New{{Name: "beside_poisoned", Partitions: 1, Replicas: 1}})
	s.must(t, err)
	isRejected(t, created["beside_poisoned"].Err)
	s.settlesTo(t, "beside.poisoned", one(1, nil))
}

func defaultTopic(t *testing.T, s TopicsSubject) {
	created := s.create(t, topics.New{Name: "by-default", Partitions: topics.Default, Replicas: topics.Default})
	s.settlesTo(t, "by-default", created["by-default"].Topic)
}

func existingTopic(t *testing.T, s TopicsSubject) {
	topic := topics.New{Name: "existing", Partitions: 1, Replicas: 1}
	s.create(t, topic)
	again, err := s.Client.CreateTopics(t.Context(), []topics.New{topic})
	s.must(t, err)
	if !admin.IsExisting(again["existing"].Err) {
		t.Errorf("error %v, want that it exists", again["existing"].Err)
	}
}

func manyTopics(t *testing.T, s TopicsSubject) {
	wanted := make([]topics.New, 0, 101)
	for i := range cap(wanted) {
		wanted = append(wanted, topics.New{Name: fmt.Sprintf("many-%03d", i), Partitions: 1, Replicas: 1})
	}
	created := s.create(t, wanted...)
	for _, topic := range wanted {
		s.must(t, s.Client.DeleteTopic(t.Context(), created[topic.Name].Topic.ID))
	}
	s.isGone(t, wanted[len(wanted)-1].Name)
}

func morePartitions(t *testing.T, s TopicsSubject) {
	s.create(t, topics.New{Name: "grows", Partitions: 2, Replicas: 1})
	s.must(t, s.Client.CreatePartitions(t.Context(), "grows", 5))
	s.settlesTo(t, "grows", one(5, nil))
	isRejected(t, s.Client.CreatePartitions(t.Context(), "grows", 5))
	isRejected(t, s.Client.CreatePartitions(t.Context(), "grows", 3))
}

func propertiesOneByOne(t *testing.T, s TopicsSubject) {
	type config = map[string]string
	s.create(t, topics.New{Name: "properties", Partitions: 1, Replicas: 1, Config: config{retention: "1000", "cleanup.policy": "compact"}})
	s.must(t, s.Client.AlterConfig(t.Context(), "properties", topics.ConfigChange{
		Set: config{retention: "2000", maxMessage: "1000"}, Remove: []string{"cleanup.policy", "segment.bytes"},
	}))
	s.settlesTo(t, "properties", one(1, config{retention: "2000", maxMessage: "1000"}))
	s.must(t, s.Client.AlterConfig(t.Context(), "properties", topics.ConfigChange{Remove: []string{retention, maxMessage}}))
	s.settlesTo(t, "properties", one(1, nil))
	s.must(t, s.Client.AlterConfig(t.Context(), "properties", topics.ConfigChange{}))
}

func propertiesAllOrNone(t *testing.T, s TopicsSubject) {
	s.create(t, topics.New{Name: "all-or-none", Partitions: 1, Replicas: 1})
	for key, value := range map[string]string{"no.such.key": "1", maxMessage: "many"} {
		isRejected(t, s.Client.AlterConfig(t.Context(), "all-or-none", topics.ConfigChange{Set: map[string]string{retention: "1000", key: value}}))
	}
	s.settlesTo(t, "all-or-none", one(1, nil))
}

func ownProperties(t *testing.T, s TopicsSubject) {
	config := map[string]string{"cleanup.policy": "compact,delete"}
	s.create(t, topics.New{Name: "own-properties", Partitions: 1, Replicas: 1, Config: config})
	s.settlesTo(t, "own-properties", one(1, config))
}

func deletedByID(t *testing.T, s TopicsSubject) {
	topic := topics.New{Name: "deleted", Partitions: 1, Replicas: 1}
	first := s.create(t, topic)["deleted"].Topic.ID
	s.must(t, s.Client.DeleteTopic(t.Context(), first))
	s.isGone(t, "deleted")
	second := s.create(t, topic)["deleted"].Topic.ID
	s.must(t, s.Client.DeleteTopic(t.Context(), first))
	if got := s.settlesTo(t, "deleted", one(1, nil)); got.ID != second || first == second {
		t.Errorf("id is %s, want %s, and the deleted one had %s", got.ID, second, first)
	}
}

func unknownTopic(t *testing.T, s TopicsSubject) {
	for name, err := range map[string]error{
		"partitions": s.Client.CreatePartitions(t.Context(), "absent", 5),
		"config":     s.Client.AlterConfig(t.Context(), "absent", topics.ConfigChange{Set: map[string]string{retention: "1"}}),
	} {
		if _, is := errors.AsType[*admin.UnknownTopicError](err); !is {
			t.Errorf("%s: error %v, want an UnknownTopicError", name, err)
		}
	}
}

func topicsUnreachable(t *testing.T, s TopicsSubject) {
	_, described := s.Unreachable.DescribeTopics(t.Context())
	_, created := s.Unreachable.CreateTopics(t.Context(), []topics.New{{Name: "x", Partitions: 1, Replicas: 1}})
	for _, err := range []error{described, created} {
		if _, ok := errors.AsType[*admin.UnreachableError](err); !ok {
			t.Errorf("error %v, want an UnreachableError", err)
		}
	}
}
