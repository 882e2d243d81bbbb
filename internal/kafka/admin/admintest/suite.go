package admintest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Limits of waiting for what Kafka does in its own time.
const (
	settleLimit = time.Minute
	settlePause = 100 * time.Millisecond
	// caughtUpWithin is Kafka's default of controller.quorum.fetch.timeout.ms.
	caughtUpWithin = 2 * time.Second
)

// Subject is a running cluster with at least three nodes, each broker and
// controller, and a client of it.
type Subject struct {
	Client    admin.Client
	ClusterID string
	// Nodes are the ids of all nodes, sorted.
	Nodes []int32
	// CreateTopic makes a topic. Topics live as long as the cluster.
	CreateTopic func(ctx context.Context, name string, partitions, replication, minInSync int) error
	// Unreachable is a client of a cluster that is not there.
	Unreachable admin.Client
	// HidesFenced: brokers list only those that take part, as before Kafka 4.0.
	HidesFenced bool
}

// Outage is a Subject whose nodes can be stopped and started again.
type Outage struct {
	Subject

	Stop, Start func(ctx context.Context, id int32) error
}

// Run checks a client of a healthy cluster. It asks for one subject and leaves
// topics named after the checks behind.
func Run(t *testing.T, factory func(t *testing.T) Subject) {
	t.Helper()
	s := factory(t)
	for name, check := range map[string]func(*testing.T, Subject){
		"the quorum has a leader among its voters, all caught up":    quorumIsHealthy,
		"all brokers are registered and none is fenced":              brokersAreRegistered,
		"a topic shows its copies and what they have to be":          topicIsListed,
		"a topic is described with what it sets itself":              topicIsDescribed,
		"partitions are sorted, and found by the broker they are on": partitionsAreFound,
		"a broker that is not registered cannot be unregistered":     unknownBroker,
		"the metadata version has a name":                            metadataVersion,
		"the metadata version is not raised to what it is":           metadataVersionStays,
		"the metadata version is never lowered":                      metadataVersionIsNotLowered,
		"the metadata version cannot exceed what nodes support":      metadataVersionIsSupported,
		"a call ends with its context":                               contextEnds,
		"a cluster that is not there is unreachable":                 unreachable,
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

// RunOutage checks what a client shows of a node that stops and comes back.
func RunOutage(t *testing.T, factory func(t *testing.T) Outage) {
	t.Helper()
	o := factory(t)
	stopped := o.Nodes[len(o.Nodes)-1]
	if err := o.CreateTopic(t.Context(), "outage", 3, len(o.Nodes), 1); err != nil {
		t.Fatal(err)
	}
	if err := o.Stop(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	t.Run("a stopped broker is registered and fenced", func(t *testing.T) { isFenced(t, o.Subject, stopped) })
	t.Run("a stopped broker is out of sync and leads nothing", func(t *testing.T) { isOutOfSync(t, o.Subject, stopped) })
	t.Run("a stopped voter is no longer caught up", func(t *testing.T) { isBehind(t, o.Subject, stopped) })
	if err := o.Start(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	t.Run("a node that is back is in sync and caught up again", func(t *testing.T) { isBack(t, o.Subject, stopped) })
	if err := o.Stop(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	t.Run("a broker that is gone can be forgotten", func(t *testing.T) { isForgotten(t, o.Subject, stopped) })
}

func quorumIsHealthy(t *testing.T, s Subject) {
	settles(t, func(ctx context.Context) (bool, error) {
		q, err := s.Client.Quorum(ctx)
		if err != nil {
			return false, err
		}
		ids := []int32{}
		caughtUp := q.Epoch > 0
		for _, v := range q.Voters {
			ids = append(ids, v.ID)
			caughtUp = caughtUp && q.CaughtUp(v.ID, caughtUpWithin)
		}
		return caughtUp && slices.Equal(ids, s.Nodes) && slices.Contains(ids, q.LeaderID), nil
	})
}

func brokersAreRegistered(t *testing.T, s Subject) {
	cluster, err := s.Client.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{}
	for _, b := range cluster.Brokers {
		ids = append(ids, b.ID)
		if b.Fenced || b.Host == "" || b.Port == 0 {
			t.Errorf("broker %+v, want one that takes part and has an address", b)
		}
	}
	if diff := cmp.Diff(s.Nodes, ids); diff != "" {
		t.Errorf("registered brokers (-want +got):\n%s", diff)
	}
	if cluster.ID != s.ClusterID {
		t.Errorf("cluster id %q, want %q", cluster.ID, s.ClusterID)
	}
}

func topicIsListed(t *testing.T, s Subject) {
	if err := s.CreateTopic(t.Context(), "listed", 2, 3, 2); err != nil {
		t.Fatal(err)
	}
	settles(t, func(ctx context.Context) (bool, error) {
		partitions, err := s.Client.Partitions(ctx)
		if err != nil {
			return false, err
		}
		listed := slices.DeleteFunc(partitions, func(p admin.Partition) bool { return p.Topic != "listed" })
		complete := len(listed) == 2
		for _, p := range listed {
			complete = complete && len(p.Replicas) == 3 && slices.Equal(p.Replicas, p.InSync) &&
				p.MinInSync == 2 && slices.Contains(p.Replicas, p.Leader)
		}
		return complete, nil
	})
}

func topicIsDescribed(t *testing.T, s Subject) {
	if err := s.CreateTopic(t.Context(), "described", 2, 3, 2); err != nil {
		t.Fatal(err)
	}
	settles(t, func(ctx context.Context) (bool, error) {
		held, err := s.Client.DescribeTopics(ctx)
		if err != nil {
			return false, err
		}
		of := held["described"]
		return !of.ID.IsZero() && of.Partitions == 2 && of.Fewest == 3 && of.Most == 3 && of.Config[topics.MinInSync] == "2", nil
	})
}

func partitionsAreFound(t *testing.T, s Subject) {
	for _, name := range []string{"found-b", "found-a"} {
		if err := s.CreateTopic(t.Context(), name, 2, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	var partitions []admin.Partition
	settles(t, func(ctx context.Context) (bool, error) {
		all, err := s.Client.Partitions(ctx)
		partitions = slices.DeleteFunc(all, func(p admin.Partition) bool { return p.Topic != "found-a" && p.Topic != "found-b" })
		return len(partitions) == 4, err
	})
	if diff := cmp.Diff([]string{"found-a", "found-b"}, admin.Topics(partitions)); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	held := 0
	for _, id := range s.Nodes {
		for _, p := range replicasOn(partitions, id) {
			held++
			if !slices.Equal(p.Replicas, []int32{id}) {
				t.Errorf("partition %+v is said to be held by broker %d", p, id)
			}
		}
	}
	if held != len(partitions) {
		t.Errorf("%d partitions are held by a broker, want %d", held, len(partitions))
	}
	order := func(a, b admin.Partition) int {
		if a.Topic == b.Topic {
			return int(a.Partition - b.Partition)
		}
		return slices.Compare([]byte(a.Topic), []byte(b.Topic))
	}
	if !slices.IsSortedFunc(partitions, order) {
		t.Errorf("partitions are not sorted: %+v", partitions)
	}
}

func unknownBroker(t *testing.T, s Subject) {
	err := s.Client.UnregisterBroker(t.Context(), 99)
	if unknown, ok := errors.AsType[*admin.UnknownBrokerError](err); !ok || unknown.ID != 99 {
		t.Errorf("error %v, want an UnknownBrokerError of broker 99", err)
	}
}

func metadataVersion(t *testing.T, s Subject) {
	level := currentLevel(t, s)
	name := release.MetadataVersionOf(level)
	if got := name.Level(); got != level {
		t.Errorf("level of %q is %d, want %d", name, got, level)
	}
}

func metadataVersionStays(t *testing.T, s Subject) {
	if err := s.Client.UpdateMetadataVersion(t.Context(), currentLevel(t, s)); err != nil {
		t.Errorf("error %v, want none", err)
	}
}

func metadataVersionIsNotLowered(t *testing.T, s Subject) {
	level := currentLevel(t, s)
	isUnsupported(t, s.Client.UpdateMetadataVersion(t.Context(), level-1))
	if got := currentLevel(t, s); got != level {
		t.Errorf("level %d, want %d as before", got, level)
	}
}

func metadataVersionIsSupported(t *testing.T, s Subject) {
	const beyond = 1000
	isUnsupported(t, s.Client.UpdateMetadataVersion(t.Context(), beyond))
}

func isUnsupported(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*admin.UnsupportedFeatureError](err); !ok {
		t.Errorf("error %v, want an UnsupportedFeatureError", err)
	}
}

func currentLevel(t *testing.T, s Subject) int16 {
	t.Helper()
	features, err := s.Client.Features(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return features.MetadataVersion
}

func contextEnds(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Client.Partitions(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func unreachable(t *testing.T, s Subject) {
	for name, call := range map[string]func() error{
		"Cluster": func() error { _, err := s.Unreachable.Cluster(t.Context()); return err },
		"Quorum":  func() error { _, err := s.Unreachable.Quorum(t.Context()); return err },
	} {
		if _, ok := errors.AsType[*admin.UnreachableError](call()); !ok {
			t.Errorf("%s: error %v, want an UnreachableError", name, call())
		}
	}
}

// settles waits until the condition holds: Kafka's brokers learn of a change one
// after the other.
func settles(t *testing.T, condition func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		holds, err := condition(ctx)
		if holds && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the cluster did not settle within %s; last error: %v", settleLimit, err)
		case <-tick.C:
		}
	}
}
