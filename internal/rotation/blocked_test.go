package rotation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// behindItsMount is a rotation in which all has been done that can be, while the kubelet
// of one node has for that long not mounted what was published to it.
func behindItsMount(t *testing.T, since time.Duration) rotation.Record {
	t.Helper()
	r := until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.SwitchingLeaves)
	eachRole(&r.Snapshot.Members[0], func(m *trust.Member, e *trust.Evidence) {
		e.Mounted = []trust.Stores{{Trust: []trust.AnchorID{rotationtest.AnchorA}, Identity: m.Published.Identity}}
	})
	for range 20 {
		plan := trust.Decide(r.Snapshot)
		if len(trust.Steps(r.Snapshot, plan)) == 0 {
			break
		}
		rotationtest.Advance(&r.Snapshot, plan)
	}
	eachRole(&r.Snapshot.Members[0], func(_ *trust.Member, e *trust.Evidence) { e.Since = r.Snapshot.Now.Add(-since) })
	return r
}

func eachRole(m *trust.Member, change func(*trust.Member, *trust.Evidence)) {
	for i := range m.Roles {
		change(m, &m.Roles[i].Evidence)
	}
}

func TestARotationThatWaitsInVainIsBlocked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		since time.Duration
		want  bool
	}{
		"its guard has just been shut":                  {0, false},
		"its guard has been shut for four minutes":      {4 * time.Minute, false},
		"its guard has been shut for five minutes":      {5 * time.Minute, true},
		"its guard has been shut since a clock to come": {-time.Hour, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := behindItsMount(t, test.since)
			plan := trust.Decide(r.Snapshot)
			if len(plan.Blockers) == 0 || len(plan.Loads) > 0 {
				t.Fatalf("blockers %v, loads %v: it waits for nobody", plan.Blockers, plan.Loads)
			}
			if phase := authorities.Words().PhaseOf(r.Snapshot, plan); (phase == rotation.Blocked) != test.want || authorities.Words().Settled(phase) {
				t.Errorf("phase %s", phase)
			}
		})
	}
}

func TestABlockedRotationSaysWhoIsWaitedForAndWhatCanBeDone(t *testing.T) {
	t.Parallel()
	r := behindItsMount(t, time.Hour)
	message := authorities.Words().Message(r.Snapshot, trust.Decide(r.Snapshot), r.Subject())
	for _, want := range []string{
		string(trust.GuardMounted), "waiting for my-dual-0", "since 2026-11-21T07:", "check the events of my-dual-0 and the kubelet there",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("it is said: %s\nwant: %s", message, want)
		}
	}
}
