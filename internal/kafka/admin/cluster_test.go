package admin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/admin"
)

func TestCaughtUp(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := admin.Quorum{LeaderID: 1, Voters: []admin.Replica{
		{ID: 0, LastCaughtUp: now.Add(-time.Second)},
		{ID: 1, LastCaughtUp: now},
		{ID: 2, LastCaughtUp: now.Add(-2 * time.Second)},
		{ID: 3},
	}}
	for name, c := range map[string]struct {
		id   int32
		want bool
	}{
		"the leader":                             {1, true},
		"a voter within the time":                {0, true},
		"a voter that is exactly too late":       {2, false},
		"a voter of which the leader knows none": {3, false},
		"somebody else":                          {4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := q.CaughtUp(c.id, 2*time.Second); got != c.want {
				t.Errorf("caught up = %t, want %t", got, c.want)
			}
		})
	}
}

func TestHeldFindsReplicasThatAreOutOfSyncToo(t *testing.T) {
	t.Parallel()
	partitions := []admin.Partition{
		{Topic: "b", Replicas: []int32{1, 2}, InSync: []int32{1}},
		{Topic: "a", Replicas: []int32{1, 3}, InSync: []int32{1, 3}},
		{Topic: "b", Partition: 1, Replicas: []int32{2, 3}, InSync: []int32{3}},
	}
	if diff := cmp.Diff([]string{"b"}, admin.Topics(admin.Held(partitions, 2))); diff != "" {
		t.Errorf("topics of broker 2 (-want +got):\n%s", diff)
	}
	if got := len(partitions); got != 3 || partitions[0].Topic != "b" {
		t.Errorf("the list itself has changed: %+v", partitions)
	}
}
