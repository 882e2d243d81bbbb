package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// requestTopics is how many topics are created in one request.
const requestTopics = 100

// CreateTopics creates topics in as few requests as Kafka accepts.
func (k *Kafka) CreateTopics(ctx context.Context, wanted []topics.New) (map[string]Creation, error) {
	results := make(map[string]Creation, len(wanted))
	for _, batch := range batches(wanted) {
		if err := k.createBatch(ctx, batch, results); err != nil {
			return results, err
		}
	}
	return results, nil
}

// batches divides topics into requests, each of which creates no more partitions than Kafka accepts as far as that is known.
func batches(wanted []topics.New) [][]topics.New {
	var all [][]topics.New
	begin, partitions := 0, int32(0)
	for i, topic := range wanted {
		more := max(topic.Partitions, 1)
		if i > begin && (i-begin == requestTopics || more > topics.MostPartitions-partitions) {
			all, begin, partitions = append(all, wanted[begin:i]), i, 0
		}
		partitions += min(more, topics.MostPartitions)
	}
	if begin < len(wanted) {
		all = append(all, wanted[begin:])
	}
	return all
}

// createBatch creates topics in one request. One that Kafka refuses as a whole is halved: how many partitions a topic gets may be
// known to the brokers alone.
func (k *Kafka) createBatch(ctx context.Context, batch []topics.New, into map[string]Creation) error {
	results, err := k.createAtOnce(ctx, batch)
	if err != nil {
		return err
	}
	if len(batch) == 1 || !isRefusedAsAWhole(batch, results) {
		maps.Copy(into, results)
		return nil
	}
	for _, half := range [][]topics.New{batch[:len(batch)/2], batch[len(batch)/2:]} {
		if err := k.createBatch(ctx, half, into); err != nil {
			return err
		}
	}
	return nil
}

// isRefusedAsAWhole reports whether Kafka says the same of every topic: that they violate its policy.
func isRefusedAsAWhole(batch []topics.New, results map[string]Creation) bool {
	first, isRejected := errors.AsType[*RejectedError](results[batch[0].Name].Err)
	if !isRejected {
		return false
	}
	return !slices.ContainsFunc(batch, func(topic topics.New) bool {
		rejected, is := errors.AsType[*RejectedError](results[topic.Name].Err)
		return !is || !errors.Is(rejected, kerr.PolicyViolation) || rejected.Message != first.Message
	})
}

func (k *Kafka) createAtOnce(ctx context.Context, batch []topics.New) (map[string]Creation, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	resp, err := k.creation(batch).RequestWith(ctx, k.brokers)
	if err != nil {
		return nil, k.failed(fmt.Sprintf("creating %d topics", len(batch)), err)
	}
	results := make(map[string]Creation, len(batch))
	for _, topic := range batch {
		results[topic.Name] = Creation{Err: k.failed("creating topic "+topic.Name, errUndescribed)}
	}
	for _, result := range resp.Topics {
		at := slices.IndexFunc(batch, func(topic topics.New) bool { return topic.Name == result.Topic })
		if at < 0 {
			continue // nothing has asked for it
		}
		created := topics.Topic{
			ID: result.TopicID, Partitions: result.NumPartitions, Fewest: result.ReplicationFactor, Most: result.ReplicationFactor,
			Config: maps.Clone(batch[at].Config),
		}
		results[result.Topic] = Creation{created, k.changed("creating topic "+result.Topic, result.ErrorCode, result.ErrorMessage)}
	}
	return results, nil
}

func (k *Kafka) creation(batch []topics.New) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = k.timeoutMillis()
	for _, topic := range batch {
		wanted := kmsg.NewCreateTopicsRequestTopic()
		wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic.Name, topic.Partitions, topic.Replicas
		for _, key := range slices.Sorted(maps.Keys(topic.Config)) {
			property := kmsg.NewCreateTopicsRequestTopicConfig()
			property.Name, property.Value = key, new(topic.Config[key])
			wanted.Configs = append(wanted.Configs, property)
		}
		req.Topics = append(req.Topics, wanted)
	}
	return req
}

// IsExisting reports whether an error says that there is a topic of this name already.
func IsExisting(err error) bool { return errors.Is(err, kerr.TopicAlreadyExists) }
