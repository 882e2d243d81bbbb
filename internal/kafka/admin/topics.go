package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

const (
	// topicBytes is what a topic takes in memory without its texts, propertyBytes what a property does.
	topicBytes    = 160
	propertyBytes = 48
	// keptTopicBytes is what all topics of a cluster may take in memory. One with four properties takes some 500, so these are
	// more than 30,000.
	keptTopicBytes = 16 << 20
)

var (
	errManyTopics   = fmt.Errorf("the topics take more than the %d MiB that are kept of one cluster, which is enough for 30,000", keptTopicBytes>>20)
	errUndescribed  = errors.New("the answer says nothing of it")
	errNoPartitions = errors.New("the answer lists no partition of it")
)

var _ TopicsClient = (*Kafka)(nil)

// DescribeTopics lists the partitions of all topics page by page, and then reads the properties that topics set themselves.
func (k *Kafka) DescribeTopics(ctx context.Context) (map[string]topics.Topic, error) {
	list := topicListing{topics: map[string]topics.Topic{}}
	broker, err := k.listTopics(ctx, &list)
	if err != nil {
		return nil, k.failed("listing topics", err)
	}
	for names := range slices.Chunk(list.names, pageSize) {
		if err := k.describePage(ctx, broker, names, &list); err != nil {
			return nil, k.failed("describing the configs of topics", err)
		}
	}
	return list.topics, nil
}

// describePage reads the properties of some topics, in halves where they are too much for one answer.
func (k *Kafka) describePage(ctx context.Context, broker kmsg.Requestor, names []string, into *topicListing) error {
	err := k.describeConfigs(ctx, broker, names, into)
	if _, isLong := errors.AsType[*LongAnswerError](err); !isLong || len(names) == 1 {
		return err
	}
	half := len(names) / 2
	if err := k.describePage(ctx, broker, names[:half], into); err != nil {
		return err
	}
	return k.describePage(ctx, broker, names[half:], into)
}

func (k *Kafka) listTopics(ctx context.Context, into *topicListing) (kmsg.Requestor, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	return k.pages(ctx, into.read)
}

// topicListing is what is known of all topics.
type topicListing struct {
	topics map[string]topics.Topic
	// names are sorted, as Kafka lists them.
	names []string
	// kept is what they take, in bytes.
	kept int
}

// read adds a page. A page that adds nothing and is not the last one is an error: the list would never end.
func (l *topicListing) read(page *kmsg.DescribeTopicPartitionsResponse) error {
	isAdded := false
	for _, listed := range page.Topics {
		if listed.Topic == nil || listed.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue // deleted just now
		}
		err := kerr.ErrorForCode(listed.ErrorCode)
		if err == nil && len(listed.Partitions) == 0 {
			err = errNoPartitions
		}
		if err != nil {
			return fmt.Errorf("topic %s: %w", excerpt.Of(*listed.Topic, excerpt.Foreign), err)
		}
		for _, partition := range listed.Partitions {
			if err := l.add(*listed.Topic, listed.TopicID, partition); err != nil {
				return err
			}
			isAdded = true
		}
	}
	if page.NextCursor != nil && !isAdded {
		return errPages
	}
	return nil
}

// add counts a partition, which is the next of the last topic or the first of one after that.
func (l *topicListing) add(name string, id topics.ID, partition kmsg.DescribeTopicPartitionsResponseTopicPartition) error {
	topic, isKnown := l.topics[name]
	isLast := isKnown && name == l.names[len(l.names)-1]
	if isKnown != isLast || partition.Partition != topic.Partitions || isKnown && topic.ID != id || !isKnown && !l.isAfter(name) {
		return errPages
	}
	replicas := int16(min(len(partition.Replicas), maxReplicas))
	if !isKnown {
		if err := l.keep(topicBytes + len(name)); err != nil {
			return err
		}
		l.names = append(l.names, name)
		topic = topics.Topic{ID: id, Fewest: replicas, Most: replicas}
	}
	topic.Partitions++
	topic.Fewest, topic.Most = min(topic.Fewest, replicas), max(topic.Most, replicas)
	l.topics[name] = topic
	return nil
}

// maxReplicas is the highest replication factor there is.
const maxReplicas = 1<<15 - 1

func (l *topicListing) isAfter(name string) bool {
	return len(l.names) == 0 || name > l.names[len(l.names)-1]
}

func (l *topicListing) keep(bytes int) error {
	l.kept += bytes
	if l.kept > keptTopicBytes {
		return errManyTopics
	}
	return nil
}

// describeConfigs reads the properties of some topics. A topic that was deleted since it was listed is left out.
func (k *Kafka) describeConfigs(ctx context.Context, broker kmsg.Requestor, names []string, into *topicListing) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	missing := make(map[string]bool, len(names))
	for _, name := range names {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, resource)
		missing[name] = true
	}
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return err
	}
	for _, resource := range resp.Resources {
		if !missing[resource.ResourceName] {
			continue // nothing has asked for it, or it was told already
		}
		delete(missing, resource.ResourceName)
		if err := into.describe(resource); err != nil {
			return fmt.Errorf("topic %s: %w", excerpt.Of(resource.ResourceName, excerpt.Foreign), err)
		}
	}
	for name := range missing {
		return fmt.Errorf("topic %s: %w", excerpt.Of(name, excerpt.Foreign), errUndescribed)
	}
	return nil
}

// describe adds the properties that a topic sets itself, but for secret ones.
func (l *topicListing) describe(resource kmsg.DescribeConfigsResponseResource) error {
	if resource.ErrorCode == kerr.UnknownTopicOrPartition.Code {
		delete(l.topics, resource.ResourceName)
		return nil
	}
	if err := kerr.ErrorForCode(resource.ErrorCode); err != nil {
		return err
	}
	topic := l.topics[resource.ResourceName]
	topic.Config = map[string]string{}
	for _, property := range resource.Configs {
		if property.Source != kmsg.ConfigSourceDynamicTopicConfig || property.IsSensitive || property.Value == nil {
			continue
		}
		if err := l.keep(propertyBytes + len(property.Name) + len(*property.Value)); err != nil {
			return err
		}
		topic.Config[property.Name] = *property.Value
	}
	l.topics[resource.ResourceName] = topic
	return nil
}

// CreatePartitions makes a topic have more partitions.
func (k *Kafka) CreatePartitions(ctx context.Context, topic string, total int32) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = k.timeoutMillis()
	wanted := kmsg.NewCreatePartitionsRequestTopic()
	wanted.Topic, wanted.Count = topic, total
	req.Topics = append(req.Topics, wanted)
	doing := fmt.Sprintf("creating partitions of topic %s up to %d", topic, total)
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Topics {
		if result.Topic == topic {
			return k.topicChanged(doing, topic, result.ErrorCode, result.ErrorMessage)
		}
	}
	return k.failed(doing, errUndescribed)
}

// AlterConfig changes properties of a topic in one request.
func (k *Kafka) AlterConfig(ctx context.Context, topic string, change topics.ConfigChange) error {
	if change.IsNone() {
		return nil
	}
	ctx, cancel := k.within(ctx)
	defer cancel()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, key := range slices.Sorted(maps.Keys(change.Set)) {
		property := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		property.Name, property.Op, property.Value = key, kmsg.IncrementalAlterConfigOpSet, new(change.Set[key])
		resource.Configs = append(resource.Configs, property)
	}
	for _, key := range change.Remove {
		property := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		property.Name, property.Op = key, kmsg.IncrementalAlterConfigOpDelete
		resource.Configs = append(resource.Configs, property)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	doing := "changing the config of topic " + topic
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Resources {
		if result.ResourceName == topic {
			return k.topicChanged(doing, topic, result.ErrorCode, result.ErrorMessage)
		}
	}
	return k.failed(doing, errUndescribed)
}

// DeleteTopic deletes a topic by its id.
func (k *Kafka) DeleteTopic(ctx context.Context, id topics.ID) error {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = k.timeoutMillis()
	wanted := kmsg.NewDeleteTopicsRequestTopic()
	wanted.TopicID = id
	req.Topics = append(req.Topics, wanted)
	doing := fmt.Sprintf("deleting the topic with id %s", id)
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return k.failed(doing, err)
	}
	for _, result := range resp.Topics {
		if result.TopicID != id {
			continue
		}
		err := k.topicChanged(doing, id.String(), result.ErrorCode, result.ErrorMessage)
		if _, isGone := errors.AsType[*UnknownTopicError](err); isGone {
			return nil
		}
		return err
	}
	return k.failed(doing, errUndescribed)
}

// IsDeletionDisabled reports whether an error says that the brokers are configured to delete no topic.
func IsDeletionDisabled(err error) bool { return errors.Is(err, kerr.TopicDeletionDisabled) }

// topicChanged is what came of the change of one topic. Kafka calls it retriable that a topic does not exist.
func (k *Kafka) topicChanged(doing, topic string, code int16, message *string) error {
	if code == kerr.UnknownTopicOrPartition.Code || code == kerr.UnknownTopicID.Code {
		return fmt.Errorf("%s: %w", doing, &UnknownTopicError{Topic: topic})
	}
	return k.changed(doing, code, message)
}

// timeoutMillis is how long brokers wait for the controller: no longer than the request itself takes.
func (k *Kafka) timeoutMillis() int32 {
	return int32(max(min(k.options.Timeout.Milliseconds(), maxTimeoutMillis), 0))
}

const maxTimeoutMillis = 1<<31 - 1
