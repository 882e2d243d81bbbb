package admin_test

import (
	"testing"
	"time"

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
