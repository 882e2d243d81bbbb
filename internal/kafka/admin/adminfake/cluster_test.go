package adminfake_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/admin/admintest"
)

// ticking is a clock that moves on whenever it is read, as Kafka's does.
func ticking() func() time.Time {
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(100 * time.Millisecond)
		return now
	}
}

func subject(cluster *adminfake.Cluster) admintest.Subject {
	gone := adminfake.New("gone", time.Now, adminfake.Dual(0)...)
	gone.Fail(&admin.UnreachableError{Address: "gone:9091", Err: context.DeadlineExceeded})
	return admintest.Subject{
		Client:    cluster.Client(),
		ClusterID: "MkU3OEVBNTcwNTJENDM2Qg",
		Nodes:     []int32{0, 1, 2},
		CreateTopic: func(_ context.Context, name string, partitions, replication, minInSync int) error {
			return cluster.CreateTopic(name, partitions, replication, minInSync)
		},
		Unreachable: gone.Client(),
	}
}

func TestFakeFulfilsTheContract(t *testing.T) {
	t.Parallel()
	admintest.Run(t, func(*testing.T) admintest.Subject {
		return subject(adminfake.New("MkU3OEVBNTcwNTJENDM2Qg", ticking(), adminfake.Dual(0, 1, 2)...))
	})
}

func TestFakeOutageFulfilsTheContract(t *testing.T) {
	t.Parallel()
	admintest.RunOutage(t, func(*testing.T) admintest.Outage {
		cluster := adminfake.New("MkU3OEVBNTcwNTJENDM2Qg", ticking(), adminfake.Dual(0, 1, 2)...)
		return admintest.Outage{
			Subject: subject(cluster),
			Stop:    func(_ context.Context, id int32) error { return cluster.Stop(id) },
			Start: func(_ context.Context, id int32) error {
				cluster.Start(adminfake.Node{ID: id, Broker: true, Controller: true})
				return nil
			},
		}
	})
}

func TestQuorumHasNoLeaderWithoutAMajority(t *testing.T) {
	t.Parallel()
	cluster := adminfake.New("id", ticking(), adminfake.Dual(0, 1, 2)...)
	for _, id := range []int32{0, 1} {
		if err := cluster.Stop(id); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := cluster.Client().Quorum(t.Context()); err == nil {
		t.Errorf("quorum %+v, want an error: one of three cannot lead", q)
	}
}
