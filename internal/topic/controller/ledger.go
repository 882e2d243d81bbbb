package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/rounds"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// ledger knows what Kafka holds of topics: from one round of descriptions for all of them, and from its own changes since then.
type ledger struct {
	client admin.TopicsClient

	// gate is held for reading while a topic is changed, and for writing during a round: no round shows half a change.
	gate sync.RWMutex

	mu       sync.Mutex
	kafka    types.UID
	entries  map[string]entry
	schedule rounds.Schedule
	revision uint64
}

// entry is what Kafka holds under one name, with a number that changes whenever that does. A topic that was deleted has an entry for
// a while.
type entry struct {
	topic    topics.Topic
	exists   bool
	revision uint64
	written  time.Time
}

func newLedger(client admin.TopicsClient) *ledger {
	l := &ledger{client: client}
	l.reset("")
	return l
}

// reset forgets everything: another cluster has the name.
func (l *ledger) reset(kafka types.UID) {
	l.kafka, l.entries = kafka, map[string]entry{}
	l.schedule.Restart()
}

// look describes all topics of a cluster when that is due, and reports whether it has. The error is that of the last attempt, also
// where none is due.
func (l *ledger) look(ctx context.Context, kafka types.UID, now time.Time) (bool, error) {
	if isDue, err := l.due(kafka, now); !isDue {
		return false, err
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	if isDue, err := l.due(kafka, now); !isDue {
		return false, err
	}
	held, err := l.client.DescribeTopics(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("describing topics: %w", err)
		l.schedule.Fail(err, now)
		return false, err
	}
	l.take(held, now)
	return true, nil
}

func (l *ledger) due(kafka types.UID, now time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kafka != kafka {
		l.reset(kafka)
	}
	return l.schedule.Due(now)
}

// take replaces what was known by what a round has shown, except for what was written just now.
func (l *ledger) take(held map[string]topics.Topic, now time.Time) {
	before := l.entries
	l.entries = make(map[string]entry, len(held))
	for name, topic := range held {
		if old := before[name]; old.exists && old.topic.Equal(topic) {
			l.entries[name] = old
			continue
		}
		l.revision++
		l.entries[name] = entry{topic: topic, exists: true, revision: l.revision}
	}
	for name, old := range before {
		if now.Sub(old.written) < rounds.Lag {
			l.entries[name] = old
		}
	}
	l.schedule.Described(now)
}

// failed notes that a change did not reach Kafka: nothing else is tried until the next attempt to describe topics.
func (l *ledger) failed(err error, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule.FailChange(err, now)
}

// doubt has Kafka asked again soon: it has shown that a topic is otherwise than it was described.
func (l *ledger) doubt(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule.Hasten(now)
}

// nextLook is when look asks Kafka again.
func (l *ledger) nextLook() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.schedule.Next()
}

// held is what Kafka holds under a name, nil when that is nothing.
func (l *ledger) held(name string) *topics.Topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.entries[name]
	if !known.exists {
		return nil
	}
	return &known.topic
}

// names are those of all topics that Kafka holds.
func (l *ledger) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.entries))
	for name, known := range l.entries {
		if known.exists {
			names = append(names, name)
		}
	}
	return names
}

// sight tells whether what Kafka holds under a name has changed; zero where Kafka holds nothing.
func (l *ledger) sight(name string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[name].revision
}

// note records a change that Kafka has confirmed.
func (l *ledger) note(name string, now time.Time, to func(*topics.Topic)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	topic := l.entries[name].topic
	topic.Config = maps.Clone(topic.Config)
	to(&topic)
	l.put(name, entry{topic: topic, exists: true, written: now})
}

// noteDeleted records that Kafka has deleted a topic.
func (l *ledger) noteDeleted(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(name, entry{written: now})
}

func (l *ledger) put(name string, written entry) {
	l.revision++
	written.revision = l.revision
	l.entries[name] = written
	l.schedule.Changed()
}
