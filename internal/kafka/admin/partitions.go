package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
)

const minInSyncKey = "min.insync.replicas"

// configsVersion of DescribeConfigs is what Kafka answers since 2.8.
const configsVersion = 4

var errNoMinInSync = errors.New("the answer does not tell " + minInSyncKey)

// Partitions reads the metadata of all topics and the one setting that says how
// many copies each needs, page by page (KIP-966, since Kafka 4.0).
func (k *Kafka) Partitions(ctx context.Context) ([]Partition, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	var l *list
	err := k.toBroker(ctx, "listing partitions", func(session *wire.Conn) error {
		l = newList(k.options.PartitionBytes)
		var next *place
		for first := true; first || next != nil; first = false {
			var err error
			if next, err = l.readOn(ctx, session, next); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(l.partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return l.partitions, nil
}

// readOn asks for the page that begins at the place, and for the setting of its topics.
func (l *list) readOn(ctx context.Context, session *wire.Conn, from *place) (*place, error) {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest() // no topics means all
	req.ResponsePartitionLimit = pageItems
	if from != nil {
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: from.topic, Partition: from.partition}
	}
	body, err := session.Exchange(ctx, req, pageItems*itemBytes)
	if err != nil {
		return nil, err
	}
	known := len(l.partitions)
	next, err := l.readPage(body)
	if err != nil {
		return nil, err
	}
	if next != nil && len(l.partitions) == known {
		return nil, errAnswer // a list that never ends
	}
	page := l.partitions[known:]
	minimum := map[string]int{}
	for topics := range slices.Chunk(Topics(page), pageItems) {
		if err := minInSync(ctx, session, topics, minimum); err != nil {
			return nil, err
		}
	}
	// A topic that was deleted between the two requests has no setting and no
	// partitions any more.
	page = slices.DeleteFunc(page, func(p Partition) bool {
		_, exists := minimum[p.Topic]
		return !exists
	})
	for i := range page {
		page[i].MinInSync = minimum[page[i].Topic]
	}
	l.partitions = l.partitions[:known+len(page)]
	return next, nil
}

// minInSync asks for the effective setting of each topic, defaults included.
func minInSync(ctx context.Context, session *wire.Conn, topics []string, into map[string]int) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = configsVersion
	for _, topic := range topics {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType = kmsg.ConfigResourceTypeTopic
		resource.ResourceName = topic
		resource.ConfigNames = []string{minInSyncKey}
		req.Resources = append(req.Resources, resource)
	}
	body, err := session.Exchange(ctx, req, pageItems*itemBytes)
	if err == nil {
		err = readMinInSync(body, topics, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", minInSyncKey, err)
	}
	return nil
}

// named is the name of a topic in a sentence.
func named(topic string) string { return excerpt.Of(topic, excerpt.Foreign) }
