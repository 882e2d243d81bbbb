package rotation_test

import (
	"slices"
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

// stranding is a rotation in which all has been done that can be, while one node has been
// for an hour as the change makes it.
func stranding(t *testing.T, change func(*trust.Member)) rotation.Record {
	t.Helper()
	r := rotationtest.AtRest(3, rotationtest.Replaced)
	node := &r.Snapshot.Members[0]
	change(node)
	for range 40 {
		plan := trust.Decide(r.Snapshot)
		plan.Publications[node.ID] = node.Published // nothing can be written for it
		rotationtest.Advance(&r.Snapshot, plan)
	}
	eachRole(node, func(_ *trust.Member, e *trust.Evidence) { e.Since = r.Snapshot.Now.Add(-time.Hour) })
	return r
}

func TestARotationThatWaitsForANodeThatOnlyAPersonCanHelpIsBlocked(t *testing.T) {
	t.Parallel()
	before := rotationtest.AtRest(3).Snapshot.Members[0].Published
	for name, test := range map[string]struct {
		change func(*trust.Member)
		remedy string
	}{
		"its Secret is lost with the key that signed for it": {
			func(m *trust.Member) { m.Published = trust.Publication{} },
			"restore the Secret of my-dual-0, or the key of the CA that issued its certificate",
		},
		"it is being removed and does not terminate": {
			func(m *trust.Member) { m.Leaving, m.Published = true, before },
			"check why pod my-dual-0 does not terminate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := stranding(t, test.change)
			plan := trust.Decide(r.Snapshot)
			if phase := authorities.Words().PhaseOf(r.Snapshot, plan); phase != rotation.Blocked {
				t.Errorf("phase %s, want %s; steps %+v", phase, rotation.Blocked, trust.Steps(r.Snapshot, plan))
			}
			if by := authorities.Words().BlockedBy(r.Snapshot, plan); !slices.Contains(by, "my-dual-0") || slices.ContainsFunc(by, func(id trust.MemberID) bool { return id != "my-dual-0" }) {
				t.Errorf("it is blocked by %v, want my-dual-0 alone", by)
			}
			message := authorities.Words().Message(r.Snapshot, plan, r.Subject())
			for _, want := range []string{"waiting for my-dual-0", "since 2026-11-21T", test.remedy} {
				if !strings.Contains(message, want) {
					t.Errorf("it is said: %s\nwant: %s", message, want)
				}
			}
		})
	}
}

func TestANodeThatIsBeingRemovedIsGivenNothingAndLoadsNothing(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(3, rotationtest.Replaced)
	r.Snapshot.Members[0].Leaving = true
	for range 20 {
		plan := trust.Decide(r.Snapshot)
		for _, step := range trust.Steps(r.Snapshot, plan) {
			if slices.Contains(step.Members, "my-dual-0") {
				t.Fatalf("step %+v concerns a node that is being removed", step)
			}
		}
		rotationtest.Advance(&r.Snapshot, plan)
	}
}

// It has answered the same for days; what it is waited for began with the loss.
func TestANodeWhoseSecretIsLostIsWaitedForSinceTheLoss(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(3)
	found := r.Snapshot
	found.Now = r.Snapshot.Now.Add(time.Hour)
	found.Members = slices.Clone(found.Members)
	found.Members[0].Published = trust.Publication{}

	lost := r.Lasting(found, nil)
	if since := lost.Members[0].Roles[0].Evidence.Since; !since.Equal(found.Now) {
		t.Errorf("waited for since %s, want %s", since, found.Now)
	}
	r.Snapshot = lost
	found.Now = found.Now.Add(time.Hour)
	if since := r.Lasting(found, nil).Members[0].Roles[0].Evidence.Since; !since.Equal(lost.Now) {
		t.Errorf("an hour later it is waited for since %s, want still %s", since, lost.Now)
	}
}

func TestTheRecordTellsWhichNodesArePassedOver(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(3)
	r.Snapshot.Members[0].Leaving, r.Snapshot.Members[1].SecretLost = true, true
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := authorities.Words().Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if m := read.Snapshot.Members[i]; m.Leaving != (i == 0) || m.SecretLost != (i == 1) {
			t.Errorf("%s is leaving: %t, its Secret is lost: %t", m.ID, m.Leaving, m.SecretLost)
		}
	}
}
