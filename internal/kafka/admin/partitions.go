package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const minInSyncKey = "min.insync.replicas"

var errNoMinInSync = errors.New("the answer does not tell " + minInSyncKey)

// Partitions reads the metadata of all topics and the one setting that says how
// many copies each needs.
func (k *Kafka) Partitions(ctx context.Context) ([]Partition, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest() // no topics means all
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return nil, k.failed("listing partitions", err)
	}
	partitions, err := readPartitions(resp)
	if err != nil {
		return nil, k.failed("listing partitions", err)
	}
	minimum, err := k.minInSync(ctx, Topics(partitions))
	if err != nil {
		return nil, k.failed("reading "+minInSyncKey, err)
	}
	// A topic that was deleted between the two requests has no setting and no
	// partitions any more.
	partitions = slices.DeleteFunc(partitions, func(p Partition) bool {
		_, exists := minimum[p.Topic]
		return !exists
	})
	for i := range partitions {
		partitions[i].MinInSync = minimum[partitions[i].Topic]
	}
	return partitions, nil
}

func readPartitions(resp *kmsg.MetadataResponse) ([]Partition, error) {
	partitions := []Partition{}
	for _, topic := range resp.Topics {
		if topic.Topic == nil || topic.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue // deleted just now
		}
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return nil, fmt.Errorf("topic %s: %w", *topic.Topic, err)
		}
		for _, p := range topic.Partitions {
			// A partition's error code repeats what leader and ISR say.
			partitions = append(partitions, Partition{
				Topic:     *topic.Topic,
				Partition: p.Partition,
				Leader:    p.Leader,
				Replicas:  slices.Sorted(slices.Values(p.Replicas)),
				InSync:    slices.Sorted(slices.Values(p.ISR)),
			})
		}
	}
	slices.SortFunc(partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return partitions, nil
}

// minInSync asks for the effective setting of each topic, defaults included.
func (k *Kafka) minInSync(ctx context.Context, topics []string) (map[string]int, error) {
	if len(topics) == 0 {
		return map[string]int{}, nil
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType = kmsg.ConfigResourceTypeTopic
		resource.ResourceName = topic
		resource.ConfigNames = []string{minInSyncKey}
		req.Resources = append(req.Resources, resource)
	}
	resp, err := req.RequestWith(ctx, k.brokers)
	if err != nil {
		return nil, err
	}
	minimum := make(map[string]int, len(topics))
	for _, resource := range resp.Resources {
		if resource.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue
		}
		value, err := readMinInSync(resource)
		if err != nil {
			return nil, fmt.Errorf("topic %s: %w", resource.ResourceName, err)
		}
		minimum[resource.ResourceName] = value
	}
	return minimum, nil
}

func readMinInSync(resource kmsg.DescribeConfigsResponseResource) (int, error) {
	if err := kerr.ErrorForCode(resource.ErrorCode); err != nil {
		return 0, err
	}
	for _, config := range resource.Configs {
		if config.Name == minInSyncKey && config.Value != nil {
			return strconv.Atoi(*config.Value)
		}
	}
	return 0, errNoMinInSync
}
