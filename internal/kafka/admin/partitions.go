package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
)

const minInSyncKey = "min.insync.replicas"

var errNoMinInSync = errors.New("the answer does not tell " + minInSyncKey)

// Partitions lists the partitions of all topics page by page, and reads the one setting that
// says how many copies each needs.
func (k *Kafka) Partitions(ctx context.Context) ([]Partition, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	list, broker, err := k.list(ctx)
	if err != nil {
		return nil, k.failed("listing partitions", err)
	}
	minimum := map[string]int{}
	for topics := range slices.Chunk(Topics(list), pageSize) {
		if err := readMinimums(ctx, broker, topics, minimum); err != nil {
			return nil, k.failed("reading "+minInSyncKey, err)
		}
	}
	// A topic that was deleted between the two requests has no setting and no
	// partitions any more.
	list = slices.DeleteFunc(list, func(p Partition) bool {
		_, exists := minimum[p.Topic]
		return !exists
	})
	for i := range list {
		list[i].MinInSync = minimum[list[i].Topic]
	}
	return list, nil
}

// readMinimums asks for the effective setting of each topic, defaults included. It says nothing
// of a topic that does not exist any more. The topics are sorted.
func readMinimums(ctx context.Context, broker kmsg.Requestor, topics []string, into map[string]int) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType = kmsg.ConfigResourceTypeTopic
		resource.ResourceName = topic
		resource.ConfigNames = []string{minInSyncKey}
		req.Resources = append(req.Resources, resource)
	}
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return err
	}
	missing := make(map[string]bool, len(topics))
	for _, topic := range topics {
		missing[topic] = true
	}
	for _, resource := range resp.Resources {
		if !missing[resource.ResourceName] {
			continue // it was not asked for, or it was answered already
		}
		delete(missing, resource.ResourceName)
		if resource.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue
		}
		value, err := readMinInSync(resource)
		if err != nil {
			return fmt.Errorf("topic %s: %w", excerpt.Of(resource.ResourceName, excerpt.Foreign), err)
		}
		into[resource.ResourceName] = value
	}
	if len(missing) > 0 {
		topic := slices.Min(slices.Collect(maps.Keys(missing)))
		return fmt.Errorf("topic %s: %w", excerpt.Of(topic, excerpt.Foreign), errNoMinInSync)
	}
	return nil
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
