package metrics_test

import (
	"maps"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestAMemberThatAGuardWaitsForIsCountedOnceForAllItsRoles(t *testing.T) {
	t.Parallel()
	waits := func(guard trust.GuardName, who string) trust.Blocker { return trust.Blocker{Guard: guard, Who: who} }
	for name, c := range map[string]struct {
		blockers []trust.Blocker
		want     map[trust.GuardName]int
	}{
		"nobody": {},
		"several roles of one node": {
			[]trust.Blocker{waits(trust.GuardVerified, "my-0 CONTROLPLANE-9090"), waits(trust.GuardVerified, "my-0 REPLICATION-9091")},
			map[trust.GuardName]int{trust.GuardVerified: 1},
		},
		"a node as a whole and another's role": {
			[]trust.Blocker{waits(trust.GuardVerified, "my-0"), waits(trust.GuardVerified, "my-1 REPLICATION-9091")},
			map[trust.GuardName]int{trust.GuardVerified: 2},
		},
		"one node by two guards": {
			[]trust.Blocker{waits(trust.GuardVerified, "my-0 REPLICATION-9091"), waits(trust.GuardLateUnused, "my-0 REPLICATION-9091")},
			map[trust.GuardName]int{trust.GuardVerified: 1, trust.GuardLateUnused: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := metrics.BlockedMembers(c.blockers); !maps.Equal(got, c.want) {
				t.Errorf("waited for are %v, want %v", got, c.want)
			}
		})
	}
}
