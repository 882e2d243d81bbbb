package controller

import (
	"context"
	"fmt"
	"sync"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Concurrency is how many topics are reconciled at the same time: as many as are created together, since each waits for that.
const Concurrency = 100

// creations creates topics together that are asked for at the same time: while Kafka creates some, the next ones gather.
type creations struct {
	client admin.TopicsClient

	mu        sync.Mutex
	waiting   []*wish
	isRunning bool
}

// wish is a topic that a reconcile waits for.
type wish struct {
	topic   topics.New
	granted chan struct{}
	created topics.Topic
	err     error
}

// create creates a topic, and returns when Kafka has answered. The first that asks acts for those that come meanwhile.
func (c *creations) create(ctx context.Context, topic topics.New) (topics.Topic, error) {
	own := &wish{topic: topic, granted: make(chan struct{})}
	if c.join(own) {
		c.run(ctx)
	}
	select {
	case <-own.granted:
		return own.created, own.err
	case <-ctx.Done():
		return topics.Topic{}, fmt.Errorf("creating topic %s: %w", topic.Name, ctx.Err())
	}
}

// join reports whether nothing runs yet, so that who asks has to.
func (c *creations) join(own *wish) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, own)
	if c.isRunning {
		return false
	}
	c.isRunning = true
	return true
}

func (c *creations) run(ctx context.Context) {
	for batch := c.take(); len(batch) > 0; batch = c.take() {
		c.grant(ctx, batch)
	}
}

// take takes the next ones, none twice: Kafka creates neither of two with one name in a request.
func (c *creations) take() []*wish {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch, left []*wish
	taken := map[string]bool{}
	for _, one := range c.waiting {
		if taken[one.topic.Name] || len(batch) == Concurrency {
			left = append(left, one)
			continue
		}
		taken[one.topic.Name] = true
		batch = append(batch, one)
	}
	c.waiting, c.isRunning = left, len(batch) > 0
	return batch
}

func (c *creations) grant(ctx context.Context, batch []*wish) {
	wanted := make([]topics.New, 0, len(batch))
	for _, one := range batch {
		wanted = append(wanted, one.topic)
	}
	results, err := c.client.CreateTopics(ctx, wanted)
	for _, one := range batch {
		one.err = err
		if result, isAnswered := results[one.topic.Name]; isAnswered {
			one.created, one.err = result.Topic, result.Err
		}
		close(one.granted)
	}
}
