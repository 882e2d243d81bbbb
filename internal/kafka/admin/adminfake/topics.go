package adminfake

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Topics is what a Kafka cluster holds of topics, in memory. It passes the suite of admintest that a real Kafka passes, and is
// safe for concurrent use.
type Topics struct {
	brokers int16

	mu       sync.Mutex
	held     map[string]topics.Topic
	lastID   uint64
	failure  error
	refusal  error
	refused  map[string]*kerr.Error
	isKept   bool
	rounds   int
	requests []int
	acts     []string
}

var _ admin.TopicsClient = (*Topics)(nil)

// NewTopics is a cluster with some brokers that holds no topic. Its topics have one partition and one replica by default.
func NewTopics(brokers int16) *Topics {
	return &Topics{brokers: brokers, held: map[string]topics.Topic{}, refused: map[string]*kerr.Error{}}
}

// Hold creates a topic outside of any operator, or replaces one by another with the same name.
func (t *Topics) Hold(name string, partitions int32, replicas int16, config map[string]string) topics.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(name, partitions, replicas, config)
}

func (t *Topics) put(name string, partitions int32, replicas int16, config map[string]string) topics.ID {
	t.lastID++
	id := topics.ID{15: 1}
	binary.BigEndian.PutUint64(id[:], t.lastID)
	t.held[name] = topics.Topic{ID: id, Partitions: partitions, Fewest: replicas, Most: replicas, Config: maps.Clone(config)}
	return id
}

// Change changes a topic outside of any operator.
func (t *Topics) Change(name string, to func(*topics.Topic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(name, to)
}

func (t *Topics) change(name string, to func(*topics.Topic)) {
	held := t.held[name]
	held.Config = maps.Clone(held.Config)
	if held.Config == nil {
		held.Config = map[string]string{}
	}
	to(&held)
	t.held[name] = held
}

// Remove deletes a topic outside of any operator.
func (t *Topics) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, name)
}

// Held is what is held of a topic, and whether it exists.
func (t *Topics) Held(name string) (topics.Topic, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held, exists := t.held[name]
	return held, exists
}

// Names are the topics that exist, sorted.
func (t *Topics) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.held))
}

// Fail makes every request fail with the error; nil ends that.
func (t *Topics) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = err
}

// FailChanges makes every change fail with the error; nil ends that.
func (t *Topics) FailChanges(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusal = err
}

// Refuse makes Kafka not accept a topic of this name; nil ends that.
func (t *Topics) Refuse(name string, why *kerr.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused[name] = why
}

// KeepTopics makes brokers delete no topic, as with delete.topic.enable=false.
func (t *Topics) KeepTopics(isKept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isKept = isKept
}

// Rounds is how often everything was described.
func (t *Topics) Rounds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rounds
}

// Requests are the numbers of topics that were to be created together, in order.
func (t *Topics) Requests() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Acts are the changes that were made, one line each, in order.
func (t *Topics) Acts() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.acts)
}

// DescribeTopics implements admin.TopicsObserver.
func (t *Topics) DescribeTopics(ctx context.Context) (map[string]topics.Topic, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rounds++
	if err := cmp.Or(ctx.Err(), t.failure); err != nil {
		return nil, err
	}
	held := make(map[string]topics.Topic, len(t.held))
	for name, of := range t.held {
		of.Config = maps.Clone(of.Config)
		held[name] = of
	}
	return held, nil
}

// CreateTopics implements admin.TopicsClient.
func (t *Topics) CreateTopics(ctx context.Context, wanted []topics.New) (map[string]admin.Creation, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, len(wanted))
	if err := cmp.Or(ctx.Err(), t.failure, t.refusal); err != nil {
		return nil, err
	}
	results := make(map[string]admin.Creation, len(wanted))
	for _, topic := range wanted {
		results[topic.Name] = t.create(topic)
	}
	return results, nil
}

func (t *Topics) create(topic topics.New) admin.Creation {
	if topic.Partitions == topics.Default {
		topic.Partitions = 1
	}
	if topic.Replicas == topics.Default {
		topic.Replicas = 1
	}
	if err := rejected("creating topic "+topic.Name, t.objection(topic)); err != nil {
		return admin.Creation{Err: err}
	}
	t.put(topic.Name, topic.Partitions, topic.Replicas, topic.Config)
	t.acts = append(t.acts, "create "+topic.Name)
	return admin.Creation{Topic: t.held[topic.Name]}
}

// objection is what a real Kafka says to a topic.
func (t *Topics) objection(topic topics.New) *kerr.Error {
	_, exists := t.held[topic.Name]
	switch {
	case t.refused[topic.Name] != nil:
		return t.refused[topic.Name]
	case exists:
		return kerr.TopicAlreadyExists
	case !topics.IsName(topic.Name) || t.collides(topic.Name):
		return kerr.InvalidTopicException
	case topic.Partitions < 1:
		return kerr.InvalidPartitions
	case topic.Replicas < 1 || topic.Replicas > t.brokers:
		return kerr.InvalidReplicationFactor
	}
	return objectionToConfig(topic.Config)
}

// collides reports whether there is a topic whose name differs in dots and underscores alone.
func (t *Topics) collides(name string) bool {
	for other := range t.held {
		if strings.ReplaceAll(other, ".", "_") == strings.ReplaceAll(name, ".", "_") {
			return true
		}
	}
	return false
}

// objectionToConfig knows a few properties.
func objectionToConfig(config map[string]string) *kerr.Error {
	for key, value := range config {
		switch key {
		case "cleanup.policy":
		case "retention.ms", "segment.bytes", "max.message.bytes", topics.MinInSync:
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				return kerr.InvalidConfig
			}
		case "leader.replication.throttled.replicas", "follower.replication.throttled.replicas":
		default:
			return kerr.InvalidConfig
		}
	}
	return nil
}

func rejected(doing string, why *kerr.Error) error {
	if why == nil {
		return nil
	}
	return &admin.RejectedError{Doing: doing, Message: why.Description, Err: why}
}

// request is a change of one topic.
func (t *Topics) request(ctx context.Context, name, act string, objection func(topics.Topic) *kerr.Error, to func(*topics.Topic)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmp.Or(ctx.Err(), t.failure, t.refusal); err != nil {
		return err
	}
	held, exists := t.held[name]
	if !exists {
		return &admin.UnknownTopicError{Topic: name}
	}
	if err := rejected(act+" "+name, cmp.Or(t.refused[name], objection(held))); err != nil {
		return err
	}
	t.change(name, to)
	t.acts = append(t.acts, act+" "+name)
	return nil
}

// CreatePartitions implements admin.TopicsClient.
func (t *Topics) CreatePartitions(ctx context.Context, topic string, total int32) error {
	return t.request(ctx, topic, fmt.Sprintf("create partitions up to %d of", total), func(held topics.Topic) *kerr.Error {
		if total <= held.Partitions {
			return kerr.InvalidPartitions
		}
		return nil
	}, func(held *topics.Topic) { held.Partitions = total })
}

// AlterConfig implements admin.TopicsClient.
func (t *Topics) AlterConfig(ctx context.Context, topic string, change topics.ConfigChange) error {
	if change.IsNone() {
		return nil
	}
	act := fmt.Sprintf("alter config (%d set, %d removed) of", len(change.Set), len(change.Remove))
	return t.request(ctx, topic, act, func(topics.Topic) *kerr.Error { return objectionToConfig(change.Set) },
		func(held *topics.Topic) { held.Config = change.Apply(held.Config) })
}

// DeleteTopic implements admin.TopicsClient.
func (t *Topics) DeleteTopic(ctx context.Context, id topics.ID) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := cmp.Or(ctx.Err(), t.failure, t.refusal); err != nil {
		return err
	}
	if t.isKept {
		return rejected("deleting the topic with id "+id.String(), kerr.TopicDeletionDisabled)
	}
	for name, held := range t.held {
		if held.ID == id {
			delete(t.held, name)
			t.acts = append(t.acts, "delete "+name)
		}
	}
	return nil
}
