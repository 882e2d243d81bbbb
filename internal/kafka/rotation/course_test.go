package rotation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// TestCourse tells what a person sees of each kind of rotation, pass by pass: the
// reason of the condition and its message.
func TestCourse(t *testing.T) {
	t.Parallel()
	tests := map[string]rotation.Record{
		"at-rest":      atRest(3),
		"cross-signed": atRest(3, replaced, crossed),
		"classic": atRest(3, replaced, func(r *rotation.Record) {
			r.Snapshot.Anchors[1].NoCross = "certificate a1a1 of the outgoing key has path length 0"
		}),
		"classic-restarts-only": atRest(5, replaced, restartsOnly),
		"compromised":           atRest(3, replaced, crossed, distrusted),
		"renewed-under-its-key": atRest(3, renewed),
		"new-cluster":           atRest(3, brandNew),
		"trusted-certs-lost":    atRest(3, func(r *rotation.Record) { r.Snapshot.Anchors[0].Stored = trust.Absent }),
		"paused":                atRest(3, replaced, crossed, paused),
		"a-node-is-down":        atRest(3, replaced, crossed, silent("my-dual-1", now().Add(-time.Minute))),
		"a-node-is-down-long":   atRest(3, replaced, crossed, silent("my-dual-1", now().Add(-time.Hour))),
		"clients-ca":            atRest(3, clients, replaced),
		"clients-ca-of-others":  atRest(3, clients, ofOthers, replaced),
		"no-authority":          atRest(3, func(r *rotation.Record) { r.Snapshot.Issuing = "" }),
	}
	for name, record := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, filepath.Join("testdata", "courses", name+".txt"), tell(record))
		})
	}
}

// tell plays a rotation on a cluster that obeys, and prints what changes for
// people on the way. Restarts that nobody waits for come last.
func tell(r rotation.Record) string {
	var b strings.Builder
	last, s := "", r.Snapshot
	for range 60 {
		plan := trust.Decide(s)
		if line := fmt.Sprintf("%s\n   %s\n", rotation.PhaseOf(s, plan), rotation.Message(s, plan, r.Anchors)); line != last {
			b.WriteString(line)
			last = line
		}
		if !advance(&s, plan) {
			break
		}
	}
	return b.String()
}

// advance lets one thing happen: what is written, or what is loaded, or a restart
// that nobody waits for, or the time that applications get.
func advance(s *trust.Snapshot, plan trust.Plan) bool {
	steps := trust.Steps(*s, plan)
	writes := false
	for _, step := range steps {
		writes = writes || step.Kind != trust.Loading
	}
	var asked []trust.Load
	for _, l := range plan.Loads {
		if !l.Remainder {
			asked = append(asked, l)
		}
	}
	ready := s.Application.Since.Add(s.Policy.Lead)
	switch {
	case writes:
		write(s, plan)
	case len(asked) > 0:
		load(s, asked)
	case start(s):
	case len(plan.Loads) > 0:
		load(s, plan.Loads)
	case s.Now.Before(ready):
		s.Now = ready
	case reissue(s, plan.Signer):
	case !plan.Done && !plan.Deadline.IsZero() && s.Now.Before(plan.Deadline) && len(plan.Blockers) > 0 && plan.Blockers[0].Guard == trust.GuardRetired:
		s.Now = plan.Deadline
	default:
		return false
	}
	return true
}

// reissue gives users certificates of the anchor that signs now.
func reissue(s *trust.Snapshot, signer trust.AnchorID) bool {
	turned := false
	for i := range s.Members {
		m := &s.Members[i]
		for _, a := range s.Anchors {
			if m.Kind == trust.Holder && a.ID == signer && m.Published.Identity.Signer != a.Key {
				m.Published.Identity = trust.Identity{Signer: a.Key}
				m.Roles[0].Evidence.Loaded.Identity = m.Published.Identity
				turned = true
			}
		}
	}
	return turned
}

func TestEveryPhaseIsDocumented(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join("..", "..", "..", "docs", "conditions.md"))
	for _, phase := range rotation.Phases() {
		if !strings.Contains(page, "\n| `"+string(phase)+"` |") {
			t.Errorf("docs/conditions.md says nothing about the reason %s", phase)
		}
	}
}
