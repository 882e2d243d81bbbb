package trust

import (
	"testing"
	"time"
)

// keeper is a domain of one node that verifies users, with a target and another anchor.
func keeper(stored State, change func(*Anchor)) Snapshot {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	other := Anchor{ID: "other", Key: "other key", NotAfter: now.Add(1000 * day), Stored: stored}
	change(&other)
	held := []AnchorID{"target"}
	offered := []AnchorID{"target"}
	if stored != Absent {
		held = []AnchorID{"other", "target"}
		offered = append(offered, "other")
	}
	return Snapshot{
		Now: now, Issuing: "target",
		Anchors: []Anchor{
			{ID: "target", Key: "target key", NotAfter: now.Add(1000 * day), Stored: TrustedUnused}, other,
		},
		Application: Application{Anchors: offered},
		Policy:      Policy{Retirement: RetireExpired},
		Members: []Member{{ID: "node", Published: Publication{Main: held}, Roles: []Role{{
			Name: "users", Verifies: true, Evidence: Evidence{Process: ProcessRunning, Loaded: Stores{Trust: held}},
		}}}},
	}
}

func TestAnAnchorThatItsOwnerKeepsIsTrustedBesideTheTargetAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	kept := func(a *Anchor) { a.Kept = true }
	for stored, want := range map[State]State{
		Absent: Untrusted, Untrusted: TrustedUnused, TrustedUnused: TrustedUnused, PhaseOut: Untrusted,
	} {
		plan := Decide(keeper(stored, kept))
		if got := plan.States["other"]; got != want {
			t.Errorf("from %q it goes to %q, want %q", stored, got, want)
		}
		if plan.Done != (stored == TrustedUnused) {
			t.Errorf("%q: done is %t", stored, plan.Done)
		}
		if plan.Strategy.Kind != SameKey || !plan.Deadline.IsZero() || plan.Signer != "target" {
			t.Errorf("%q: strategy %s, deadline %s, signer %s: it counts as one that goes", stored, plan.Strategy.Kind, plan.Deadline, plan.Signer)
		}
	}
}

func TestAKeptAnchorIsNotCalledTrustedBeforeEveryListenerTrustsIt(t *testing.T) {
	t.Parallel()
	s := keeper(Untrusted, func(a *Anchor) { a.Kept = true })
	s.Members[0].Roles[0].Evidence.Loaded.Trust = []AnchorID{"target"}
	if got := Decide(s).States["other"]; got != Untrusted {
		t.Errorf("it is %s, and a listener does not trust it", got)
	}
}

func TestAnAnchorThatItsOwnerKeepsGoesLikeAnyOtherWhenItIsDistrusted(t *testing.T) {
	t.Parallel()
	s := keeper(TrustedUnused, func(a *Anchor) { a.Kept, a.Compromised = true, true })
	if got := Decide(s).States["other"]; got != PhaseOut {
		t.Errorf("it is %s", got)
	}
}

func TestWhatItsOwnerHasTakenAwayGoesBeforeItsEnd(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{false, true} {
		plan := Decide(keeper(PhaseOut, func(a *Anchor) { a.Removed = removed }))
		if withdrawn := len(plan.Publications["node"].Main) == 1; withdrawn != removed {
			t.Errorf("removed %t: nodes are told to trust %v", removed, plan.Publications["node"].Main)
		}
	}
}
