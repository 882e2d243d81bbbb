package rotation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// TestCourse tells what a person sees of each kind of rotation, pass by pass: the
// reason of the condition and its message.
func TestCourse(t *testing.T) {
	t.Parallel()
	tests := map[string]rotation.Record{
		"at-rest":      rotationtest.AtRest(3),
		"cross-signed": rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed),
		"classic": rotationtest.AtRest(3, rotationtest.Replaced, func(r *rotation.Record) {
			r.Snapshot.Anchors[1].NoCross = "certificate a1a1 of the outgoing key has path length 0"
		}),
		"classic-restarts-only": rotationtest.AtRest(5, rotationtest.Replaced, rotationtest.RestartsOnly),
		"compromised":           rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted),
		"renewed-under-its-key": rotationtest.AtRest(3, rotationtest.Renewed),
		"new-cluster":           rotationtest.AtRest(3, rotationtest.BrandNew),
		"trusted-certs-lost":    rotationtest.AtRest(3, func(r *rotation.Record) { r.Snapshot.Anchors[0].Stored = trust.Absent }),
		"paused":                rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Paused),
		"a-node-is-down":        rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Minute))),
		"a-node-is-down-long":   rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Hour))),
		"clients-ca":            rotationtest.AtRest(3, rotationtest.Clients, rotationtest.Replaced),
		"clients-ca-of-others":  rotationtest.AtRest(3, rotationtest.Clients, rotationtest.OfOthers, rotationtest.Replaced),
		"users-own-ca":          rotationtest.AtRest(3, rotationtest.Replaced, usersOwn(rotation.CaCrtReaders)),
		"users-own-ca-renamed":  rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, usersOwn(rotation.CaCrtReaders)),
		"users-own-ca-below":    rotationtest.AtRest(3, rotationtest.Replaced, usersOwn(rotation.FirstReaders), below),
		"no-authority":          rotationtest.AtRest(3, func(r *rotation.Record) { r.Snapshot.Issuing = "" }),
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
		if line := fmt.Sprintf("%s\n   %s\n", authorities.Words().PhaseOf(s, plan), authorities.Words().Message(s, plan, r.Subject())); line != last {
			b.WriteString(line)
			last = line
		}
		if !rotationtest.Advance(&s, plan) {
			break
		}
	}
	return b.String()
}

func TestEveryPhaseIsDocumented(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join("..", "..", "docs", "conditions.md"))
	for _, phase := range authorities.Words().Phases() {
		if !strings.Contains(page, "\n| `"+string(phase)+"` |") {
			t.Errorf("docs/conditions.md says nothing about the reason %s", phase)
		}
	}
}
