package rotation_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// until plays a rotation until it has reached a phase.
func until(t *testing.T, r rotation.Record, phase rotation.Phase) rotation.Record {
	t.Helper()
	for range 60 {
		plan := trust.Decide(r.Snapshot)
		if rotation.PhaseOf(r.Snapshot, plan) == phase {
			return r
		}
		if !advance(&r.Snapshot, plan) {
			break
		}
	}
	t.Fatalf("it never gets to %s", phase)
	return r
}

func TestStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T) rotation.Record{
		"at-rest": func(*testing.T) rotation.Record { return atRest(2) },
		"raft-remainder": func(t *testing.T) rotation.Record {
			return until(t, atRest(2, replaced, crossed), rotation.RaftRemainder)
		},
		"a-node-is-down": func(*testing.T) rotation.Record {
			return atRest(2, replaced, crossed, silent("my-dual-1", now().Add(-time.Hour)))
		},
		"renewed-under-its-key": func(t *testing.T) rotation.Record {
			return until(t, atRest(1, renewed), rotation.WithdrawingOld)
		},
		"in-the-middle-of-everything": func(*testing.T) rotation.Record { return crowded(2) },
		"clients-ca": func(t *testing.T) rotation.Record {
			return until(t, atRest(1, clients, replaced), rotation.WaitingForUsers)
		},
		"no-authority": func(*testing.T) rotation.Record {
			return atRest(1, func(r *rotation.Record) { r.Snapshot.Issuing = "" })
		},
	}
	for name, record := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(record(t).Status(now()), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "statuses", name+".json"), string(text)+"\n")
		})
	}
}

func TestProgressCountsWhatIsProven(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		record rotation.Record
		want   rotation.Progress
	}{
		"nothing moves":                   {atRest(3), rotation.Progress{}},
		"it has just begun":               {atRest(3, replaced, crossed), rotation.Progress{Members: 3}},
		"one node does not say":           {atRest(3, replaced, crossed, silent("my-dual-0", now())), rotation.Progress{Members: 3}},
		"leaves are switched":             {until(t, atRest(3, replaced, crossed), rotation.TurningOperator), rotation.Progress{Members: 3, Trust: 3, Present: 3}},
		"only the Raft clients are left":  {until(t, atRest(3, replaced, crossed), rotation.RaftRemainder), rotation.Progress{Members: 3, Trust: 3, Present: 3, Distrust: 3}},
		"the old authority is on its way": {until(t, atRest(3, replaced, crossed), rotation.Retiring), rotation.Progress{Members: 3, Trust: 3, Present: 3, Distrust: 3, Closed: 3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.record.Status(now()).Progress); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
