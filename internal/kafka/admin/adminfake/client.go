package adminfake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Client returns a client of the cluster.
func (c *Cluster) Client() admin.Client { return &client{c: c} }

type client struct {
	c *Cluster
}

var errAllFenced = errors.New("no broker is up")

// Close implements admin.Client.
func (f *client) Close() {}

// enter begins a request; the caller unlocks.
func (f *client) enter(ctx context.Context) error {
	f.c.mu.Lock()
	if err := ctx.Err(); err != nil {
		return &admin.UnreachableError{Address: "fake", Err: err}
	}
	return f.c.failure
}

// enterBroker begins a request that some broker must answer.
func (f *client) enterBroker(ctx context.Context) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	if len(f.c.ids(func(n *node) bool { return n.Broker && n.up })) == 0 {
		return &admin.UnreachableError{Address: "fake", Err: errAllFenced}
	}
	return nil
}

// Quorum implements admin.Observer.
func (f *client) Quorum(ctx context.Context) (admin.Quorum, error) {
	err := f.enter(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return admin.Quorum{}, err
	}
	if f.c.leader < 0 {
		return admin.Quorum{}, &admin.QuorumError{Failures: []error{kerr.NotLeaderForPartition}}
	}
	q := admin.Quorum{LeaderID: f.c.leader, Epoch: f.c.epoch, HighWatermark: f.c.log, Voters: []admin.Replica{}, Observers: []admin.Replica{}}
	for _, id := range f.c.ids(func(*node) bool { return true }) {
		n := f.c.nodes[id]
		replica := admin.Replica{ID: id, LogEndOffset: f.c.log, LastFetch: f.c.now(), LastCaughtUp: f.c.now()}
		if !n.caughtUp.IsZero() {
			replica.LogEndOffset, replica.Lag = n.end, f.c.log-n.end
			replica.LastFetch, replica.LastCaughtUp = n.caughtUp, n.caughtUp
		}
		if n.Controller {
			q.Voters = append(q.Voters, replica)
		} else if n.up {
			q.Observers = append(q.Observers, replica)
		}
	}
	return q, nil
}

// Partitions implements admin.Observer.
func (f *client) Partitions(ctx context.Context) ([]admin.Partition, error) {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	partitions := []admin.Partition{}
	for _, p := range f.c.partitions {
		p.Replicas, p.InSync = slices.Clone(p.Replicas), slices.Clone(p.InSync)
		partitions = append(partitions, p)
	}
	slices.SortFunc(partitions, func(a, b admin.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return partitions, nil
}

// Cluster implements admin.Observer.
func (f *client) Cluster(ctx context.Context) (admin.Cluster, error) {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return admin.Cluster{}, err
	}
	cluster := admin.Cluster{ID: f.c.id, Brokers: []admin.Broker{}}
	for _, id := range f.c.ids(func(n *node) bool { return n.registered }) {
		cluster.Brokers = append(cluster.Brokers, admin.Broker{
			ID: id, Host: fmt.Sprintf("node-%d", id), Port: replicationPort, Fenced: !f.c.nodes[id].up,
		})
	}
	return cluster, nil
}

// Features implements admin.Observer.
func (f *client) Features(ctx context.Context) (admin.Features, error) {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return admin.Features{}, err
	}
	return admin.Features{
		MetadataVersion: f.c.level,
		Finalized:       map[string]int16{"metadata.version": f.c.level},
	}, nil
}

// DescribeTopics implements admin.TopicsObserver.
func (f *client) DescribeTopics(ctx context.Context) (map[string]topics.Topic, error) {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	held := map[string]topics.Topic{}
	for _, p := range f.c.partitions {
		topic, isKnown := held[p.Topic]
		replicas := int16(len(p.Replicas))
		if !isKnown {
			topic = topics.Topic{ID: idOf(p.Topic), Fewest: replicas, Most: replicas, Config: maps.Clone(f.c.configs[p.Topic])}
		}
		topic.Partitions++
		topic.Fewest, topic.Most = min(topic.Fewest, replicas), max(topic.Most, replicas)
		held[p.Topic] = topic
	}
	return held, nil
}

// idOf is the id of a topic, which is never made anew.
func idOf(topic string) (id topics.ID) {
	sum := sha256.Sum256([]byte(topic))
	copy(id[:], sum[:])
	return id
}

// UnregisterBroker implements admin.Actor.
func (f *client) UnregisterBroker(ctx context.Context, id int32) error {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	if err != nil {
		return err
	}
	n, found := f.c.nodes[id]
	if !found || !n.registered {
		return &admin.UnknownBrokerError{ID: id}
	}
	n.registered = false
	f.c.acts = append(f.c.acts, fmt.Sprintf("unregister broker %d", id))
	return nil
}

// UpdateMetadataVersion implements admin.Actor.
func (f *client) UpdateMetadataVersion(ctx context.Context, level int16) error {
	err := f.enterBroker(ctx)
	defer f.c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case level == f.c.level:
		return nil
	case level < f.c.level:
		return &admin.UnsupportedFeatureError{Level: level, Reason: "it would be lowered"}
	case level > f.c.supported:
		return &admin.UnsupportedFeatureError{Level: level, Reason: "a node does not support it"}
	}
	f.c.level = level
	f.c.acts = append(f.c.acts, fmt.Sprintf("update metadata.version to %s", release.MetadataVersionOf(level)))
	return nil
}
