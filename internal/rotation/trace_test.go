package rotation_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// maxRecord bounds one line of a trace.
const maxRecord = 1 << 20

// A trace is what an operator wrote down, line by line, while it rotated the CA of
// a real cluster: every state of the ConfigMap <cluster>-trust, as
//
//	kubectl get configmap <cluster>-trust --watch --output json | jq --unbuffered --raw-output '.binaryData["cluster-ca.json.gz"]' |
//	  while read -r record; do base64 --decode <<< "$record" | gunzip; echo; done
//
// shows them. The model that is walked exhaustively has to know each of its steps;
// otherwise the walk proves something about another machine.
func TestTracesOfRealRotationsArePathsOfTheModel(t *testing.T) {
	t.Parallel()
	traces, err := filepath.Glob("testdata/traces/*.jsonl")
	if err != nil || len(traces) == 0 {
		t.Fatalf("there is no trace to replay: %v", err)
	}
	for _, trace := range traces {
		t.Run(filepath.Base(trace), func(t *testing.T) {
			t.Parallel()
			records := readTrace(t, trace)
			for i, record := range records {
				assertEverybodyIsVerified(t, i, record.Snapshot)
				if i > 0 {
					assertStep(t, i, records[i-1].Snapshot, record.Snapshot)
				}
			}
			last := records[len(records)-1].Snapshot
			if phase := authorities.Words().PhaseOf(last, trust.Decide(last)); !authorities.Words().Settled(phase) {
				t.Errorf("the trace ends with %s, want an end", phase)
			}
		})
	}
}

func readTrace(t *testing.T, path string) []rotation.Record {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxRecord)
	var records []rotation.Record
	for lines.Scan() {
		record, err := authorities.Words().Parse(compress(t, lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	if lines.Err() != nil || len(records) < 2 {
		t.Fatalf("%d records, %v; want a course", len(records), lines.Err())
	}
	return records
}

// assertStep holds what changed between two records against what was decided. A
// record is made after a pass has written states and bundles, so these follow from
// the evidence of the later record; what nodes are given is written after it, so that
// follows from the earlier one.
func assertStep(t *testing.T, i int, before, after trust.Snapshot) {
	t.Helper()
	then := after
	then.Anchors, then.Application = withStates(after.Anchors, before), before.Application
	plan := trust.Decide(then)
	for _, anchor := range after.Anchors {
		if was := stored(before, anchor.ID); anchor.Stored != was && anchor.Stored != plan.States[anchor.ID] {
			t.Errorf("record %d: anchor %s went from %q to %q, and was to go to %q", i, anchor.Name, was, anchor.Stored, plan.States[anchor.ID])
		}
	}
	if !slices.Equal(after.Application.Anchors, before.Application.Anchors) && !slices.Equal(after.Application.Anchors, plan.Application) {
		t.Errorf("record %d: applications are given %v, want %v", i, after.Application.Anchors, plan.Application)
	}
	given := trust.Decide(before).Publications
	for _, member := range after.Members {
		was, existed := published(before, member.ID)
		if !existed || equal(member.Published, was) {
			continue
		}
		if diff := cmp.Diff(given[member.ID], member.Published, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("record %d: %s is given something else (-decided +given):\n%s", i, member.ID, diff)
		}
	}
}

// withStates gives anchors the states that they had before; those that a person's
// request has brought since had none.
func withStates(anchors []trust.Anchor, before trust.Snapshot) []trust.Anchor {
	out := slices.Clone(anchors)
	for i := range out {
		out[i].Stored = stored(before, out[i].ID)
	}
	return out
}

func stored(s trust.Snapshot, id trust.AnchorID) trust.State {
	for _, anchor := range s.Anchors {
		if anchor.ID == id {
			return anchor.Stored
		}
	}
	return trust.Absent
}

func published(s trust.Snapshot, id trust.MemberID) (trust.Publication, bool) {
	for _, member := range s.Members {
		if member.ID == id {
			return member.Published, true
		}
	}
	return trust.Publication{}, false
}

func equal(a, b trust.Publication) bool { return cmp.Equal(a, b, cmpopts.EquateEmpty()) }

// assertEverybodyIsVerified is the law: whoever was proven to present something is
// verified by whoever was proven to trust something and is talked to.
func assertEverybodyIsVerified(t *testing.T, i int, s trust.Snapshot) {
	t.Helper()
	keys := map[trust.AnchorID]trust.KeyID{}
	for _, anchor := range s.Anchors {
		keys[anchor.ID] = anchor.Key
	}
	for _, presenter := range s.Members {
		for _, shows := range presenter.Roles {
			for _, verifier := range s.Members {
				for _, trusts := range verifier.Roles {
					if !talk(presenter, shows, trusts) || verifies(keys, trusts.Evidence.Loaded.Trust, shows.Evidence.Loaded.Identity) {
						continue
					}
					t.Errorf("record %d: %s %s is refused by %s %s", i, presenter.ID, shows.Name, verifier.ID, trusts.Name)
				}
			}
		}
	}
}

// talk reports whether both roles are known to run, and one shows itself to the
// other.
func talk(presenter trust.Member, shows, trusts trust.Role) bool {
	if !shows.Presents || !trusts.Verifies ||
		shows.Evidence.Process != trust.ProcessRunning || trusts.Evidence.Process != trust.ProcessRunning {
		return false
	}
	switch {
	case presenter.Kind == trust.Operator:
		return trusts.Plane != roles.Raft()
	case shows.Plane == roles.Raft():
		return trusts.Plane == roles.Control()
	case shows.Plane == roles.Control():
		return trusts.Plane == roles.Raft()
	default:
		return trusts.Plane == roles.Data()
	}
}

func verifies(keys map[trust.AnchorID]trust.KeyID, anchors []trust.AnchorID, shown trust.Identity) bool {
	return slices.ContainsFunc(anchors, func(id trust.AnchorID) bool {
		return keys[id] == shown.Signer || slices.Contains(shown.Cross, keys[id])
	})
}
