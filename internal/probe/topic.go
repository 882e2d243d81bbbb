package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/utils/clock"
)

// Topic is one that a client shares with others, other runs of itself among them. It is
// created if it is missing, and it stays.
type Topic struct {
	Name string
	// Partitions and Replicas of a topic that is created; zero means the cluster's
	// default.
	Partitions int32
	Replicas   int16
	// Retention of a topic that is created; zero means the cluster's default.
	Retention time.Duration
}

const (
	// partitions of a topic that the probe creates for one client.
	partitions = 3
	// clusterDefault leaves a number of a new topic to the cluster.
	clusterDefault = -1
	// segments of a topic that last for its retention: only whole ones are deleted.
	segments = 24
	// mostPartitions bounds how many partitions of a shared topic one client uses.
	mostPartitions = 3
)

// ownPartitions are all of such a topic.
func ownPartitions() []int32 { return []int32{0, 1, 2} }

// course is where a client writes, and what it reads.
type course struct {
	topic string
	// partitions that it writes to, in turn.
	partitions []int32
	// from are the offsets of a shared topic that it reads from.
	from   map[int32]int64
	shared bool
}

// partitionOf spreads records evenly, so that each partition has its own clock.
func (c course) partitionOf(seq uint64) int32 {
	return c.partitions[seq%uint64(len(c.partitions))]
}

// start is how far each partition counts as read before anything was.
func (c course) start() map[int32]int64 {
	if c.shared {
		return maps.Clone(c.from)
	}
	return map[int32]int64{}
}

// consume reads an own topic from its beginning, and a shared one from where it ended
// when the client started.
func (c course) consume() kgo.Opt {
	if !c.shared {
		return kgo.ConsumeTopics(c.topic)
	}
	offsets := map[int32]kgo.Offset{}
	for partition, offset := range c.from {
		offsets[partition] = kgo.NewOffset().At(offset)
	}
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.topic: offsets})
}

// share finds the end of a topic, which it creates if it is missing.
func (p *preparation) share(ctx context.Context, topic Topic, clk clock.WithTicker) error {
	ticker := clk.NewTicker(retryPause)
	defer ticker.Stop()
	for {
		found, err := p.findOrCreate(ctx, topic)
		if err == nil {
			p.courses = append(p.courses, found)
			return nil
		}
		if !kerr.IsRetriable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C():
		}
	}
}

// findOrCreate returns a retriable error of Kafka while a new topic is not there yet.
func (p *preparation) findOrCreate(ctx context.Context, topic Topic) (course, error) {
	found, err := p.endOf(ctx, topic.Name)
	if err == nil {
		return found, nil
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if failed := p.create(ctx, topic); failed != nil {
			return course{}, fmt.Errorf("creating topic %s: %w", topic.Name, failed)
		}
	}
	return course{}, fmt.Errorf("finding topic %s: %w", topic.Name, err)
}

// endOf is the course from the present end of a topic on.
func (p *preparation) endOf(ctx context.Context, topic string) (course, error) {
	ends, err := p.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return course{}, err
	}
	if err := ends.Error(); err != nil {
		return course{}, err
	}
	found := course{topic: topic, shared: true, from: map[int32]int64{}}
	ends.Each(func(end kadm.ListedOffset) { found.from[end.Partition] = end.Offset })
	for partition := range int32(mostPartitions) {
		if _, exists := found.from[partition]; exists {
			found.partitions = append(found.partitions, partition)
		}
	}
	if len(found.partitions) == 0 {
		return course{}, kerr.UnknownTopicOrPartition
	}
	return found, nil
}

// create creates a topic. Another client that was faster is as good.
func (p *preparation) create(ctx context.Context, topic Topic) error {
	configs := map[string]*string{}
	if topic.Retention > 0 {
		retention := strconv.FormatInt(topic.Retention.Milliseconds(), 10)
		segment := strconv.FormatInt((topic.Retention / segments).Milliseconds(), 10)
		configs["retention.ms"], configs["segment.ms"] = &retention, &segment
	}
	partitions, replicas := topic.Partitions, topic.Replicas
	if partitions <= 0 {
		partitions = clusterDefault
	}
	if replicas <= 0 {
		replicas = clusterDefault
	}
	_, err := p.admin.CreateTopic(ctx, partitions, replicas, configs, topic.Name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
