package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/excerpt"
)

const (
	// pageSize is how many partitions are asked for at a time, or the settings of how many topics.
	// pageBytes leaves 524 bytes to each. A partition takes 20, and 4 for each entry of the lists
	// that it has of its replicas, which are no more than four times as many; a topic takes 30 and
	// its name of up to 249. So a page of topics with one partition each, all with the longest of
	// names, may have 14 replicas of each, and one of a topic with many partitions 31. A setting
	// takes 50, and the name.
	pageSize = 250
	// maxPages is the end of a list that does not end, also where a broker is set to give fewer
	// partitions at a time.
	maxPages = 1000
	// keptBytes is what the partitions of a cluster may take in memory. One with three replicas
	// takes 112, so these are some 150,000.
	keptBytes = 16 << 20
	// partitionBytes is what a Partition takes without the replicas that it lists, on machines of 64 bits.
	partitionBytes = 80
)

var (
	errPages = errors.New("the answer does not go on where the one before has ended; if topics were being created or deleted it does the next time")
	errEnd   = fmt.Errorf("the list does not end after %d answers", maxPages)
	errMany  = fmt.Errorf("the partitions take more than the %d MiB that are kept of one cluster, "+
		"which is enough for 150,000 with three replicas; no broker is restarted without knowing them all", keptBytes>>20)
)

// pinned is one broker of a client's. All pages come from the same one, so that they show what it
// knows, and so that one broker which gives no good answer does not spoil those of others.
type pinned struct {
	broker *kgo.Broker
}

// Request implements kmsg.Requestor.
func (p pinned) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return p.broker.RetriableRequest(ctx, req)
}

// list asks for all partitions. It returns the broker that was asked, too.
func (k *Kafka) list(ctx context.Context) ([]Partition, kmsg.Requestor, error) {
	list := listing{}
	broker, err := k.pages(ctx, list.read)
	return list.partitions, broker, err
}

// pages asks any broker for the first page of partitions, and that broker for all others. It returns
// the broker, too.
func (k *Kafka) pages(ctx context.Context, read func(*kmsg.DescribeTopicPartitionsResponse) error) (kmsg.Requestor, error) {
	first := k.brokers.RequestSharded(ctx, pageRequest(nil))[0] // any one broker is asked
	if first.Err != nil {
		return nil, first.Err
	}
	broker := pinned{k.brokers.Broker(int(first.Meta.NodeID))}
	page, ok := first.Resp.(*kmsg.DescribeTopicPartitionsResponse)
	for range maxPages {
		if !ok {
			return nil, errPages
		}
		if err := read(page); err != nil {
			return nil, err
		}
		if page.NextCursor == nil {
			return broker, nil
		}
		resp, err := pageRequest(page.NextCursor).RequestWith(ctx, broker)
		if err != nil {
			return nil, err
		}
		page, ok = resp, resp != nil
	}
	return nil, errEnd
}

// pageRequest asks for all topics from the cursor on, internal ones included.
func pageRequest(from *kmsg.DescribeTopicPartitionsResponseNextCursor) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = pageSize
	if from != nil {
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = from.Topic, from.Partition
		req.Cursor = &cursor
	}
	return req
}

// listing is what the pages that were read say.
type listing struct {
	// partitions are sorted by topic and partition, as Kafka lists them.
	partitions []Partition
	// kept is what they take, in bytes.
	kept int
}

// read adds a page. It has to go on where the list ends, and there has to be something on it if
// it says that another follows: what only says that more is to come would never end.
func (l *listing) read(page *kmsg.DescribeTopicPartitionsResponse) error {
	before := len(l.partitions)
	for _, topic := range page.Topics {
		if topic.Topic == nil || topic.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			continue // deleted just now
		}
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", excerpt.Of(*topic.Topic, excerpt.Foreign), err)
		}
		for _, p := range topic.Partitions {
			// A partition's error code repeats what leader and ISR say.
			if err := l.add(Partition{
				Topic:     *topic.Topic,
				Partition: p.Partition,
				Leader:    p.LeaderID,
				Replicas:  slices.Sorted(slices.Values(p.Replicas)),
				InSync:    slices.Sorted(slices.Values(p.ISR)),
			}); err != nil {
				return err
			}
		}
	}
	if next := page.NextCursor; next != nil && (len(l.partitions) == before || !l.isNext(next.Topic, next.Partition)) {
		return errPages
	}
	return nil
}

func (l *listing) add(p Partition) error {
	if !l.isNext(p.Topic, p.Partition) {
		return errPages
	}
	l.kept += partitionBytes + 4*(cap(p.Replicas)+cap(p.InSync))
	if p.Partition == 0 {
		l.kept += len(p.Topic)
	} else {
		p.Topic = l.partitions[len(l.partitions)-1].Topic // the name is kept once, on however many pages it is
	}
	if l.kept > keptBytes {
		return errMany
	}
	l.partitions = append(l.partitions, p)
	return nil
}

// isNext reports whether a partition can be the one after the last of the list: Kafka numbers those
// of a topic from zero on, without gaps.
func (l *listing) isNext(topic string, partition int32) bool {
	if len(l.partitions) == 0 {
		return partition == 0
	}
	last := l.partitions[len(l.partitions)-1]
	if topic == last.Topic {
		return partition == last.Partition+1
	}
	return topic > last.Topic && partition == 0
}
