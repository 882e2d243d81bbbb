package admintest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

func isFenced(t *testing.T, s Subject, id int32) {
	settles(t, func(ctx context.Context) (bool, error) {
		b, isListed, err := broker(ctx, s, id)
		if s.HidesFenced {
			return err == nil && !isListed, err
		}
		return isListed && b.Fenced, err
	})
}

func broker(ctx context.Context, s Subject, id int32) (admin.Broker, bool, error) {
	cluster, err := s.Client.Cluster(ctx)
	i := slices.IndexFunc(cluster.Brokers, func(b admin.Broker) bool { return b.ID == id })
	if err != nil || i < 0 {
		return admin.Broker{}, false, err
	}
	return cluster.Brokers[i], true, nil
}

func isOutOfSync(t *testing.T, s Subject, id int32) {
	settles(t, func(ctx context.Context) (bool, error) {
		partitions, err := s.Client.Partitions(ctx)
		held := replicasOn(partitions, id)
		return len(held) > 0 && !slices.ContainsFunc(held, func(p admin.Partition) bool {
			return p.Leader == id || slices.Contains(p.InSync, id) && !isLastInSync(p)
		}), err
	})
}

// isLastInSync reports whether a partition waits for the one replica that has all of its records. Without eligible leader
// replicas (KIP-966), which clusters have that were made with Kafka 4.1 or later, that one stays in sync.
func isLastInSync(p admin.Partition) bool { return p.Leader < 0 && len(p.InSync) == 1 }

func isBehind(t *testing.T, s Subject, id int32) {
	settles(t, func(ctx context.Context) (bool, error) {
		q, err := s.Client.Quorum(ctx)
		_, voter := q.Voter(id)
		return voter && q.LeaderID != id && !q.CaughtUp(id, caughtUpWithin), err
	})
}

func isBack(t *testing.T, s Subject, id int32) {
	settles(t, func(ctx context.Context) (bool, error) {
		b, registered, err := broker(ctx, s, id)
		if err != nil || !registered || b.Fenced {
			return false, err
		}
		partitions, err := s.Client.Partitions(ctx)
		if err != nil {
			return false, err
		}
		q, err := s.Client.Quorum(ctx)
		return q.CaughtUp(id, caughtUpWithin) && !slices.ContainsFunc(replicasOn(partitions, id), func(p admin.Partition) bool {
			return !slices.Contains(p.InSync, id)
		}), err
	})
}

func isForgotten(t *testing.T, s Subject, id int32) {
	isFenced(t, s, id)
	if err := s.Client.UnregisterBroker(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	settles(t, func(ctx context.Context) (bool, error) {
		if s.HidesFenced {
			_, isUnknown := errors.AsType[*admin.UnknownBrokerError](s.Client.UnregisterBroker(ctx, id))
			return isUnknown, nil
		}
		_, isListed, err := broker(ctx, s, id)
		return !isListed, err
	})
}

// replicasOn are the partitions that have a replica on the broker.
func replicasOn(partitions []admin.Partition, broker int32) []admin.Partition {
	return slices.DeleteFunc(slices.Clone(partitions), func(p admin.Partition) bool { return !slices.Contains(p.Replicas, broker) })
}
