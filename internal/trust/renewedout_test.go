package trust

import (
	"slices"
	"testing"
	"time"
)

// renewedBefore is a replacement of A by B after A's certificate was renewed: "A1" is the
// one before, which the Secret does not hold any more.
func renewedBefore(renewed State) Snapshot {
	return cluster(stored(renewed, Untrusted), func(s *Snapshot) {
		s.Anchors = append(s.Anchors, Anchor{ID: "A1", Key: "keyA", NotAfter: s.Anchors[0].NotAfter.Add(-day)})
	})
}

func TestACertificateThatWasRenewedOutComesBackOnlyWhileTheOneAfterItIsNotTrusted(t *testing.T) {
	t.Parallel()
	for renewed, want := range map[State]State{
		InUseAll: Absent, InUseAny: Absent, Untrusted: TrustedUnused,
	} {
		if got := Decide(renewedBefore(renewed)).States["A1"]; got != want {
			t.Errorf("beside a renewed one that is %s it becomes %q, want %q", renewed, got, want)
		}
	}
}

func TestAnExpiredEntryOfWhatApplicationsReadReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left time.Duration
		want StrategyKind
	}{
		"it has ended":      {-time.Hour, SameKey},
		"it has not so far": {time.Hour, Classic},
	} {
		s := atRest(1, func(s *Snapshot) {
			s.Anchors = append(s.Anchors, Anchor{ID: "old", Key: "old key", NotAfter: s.Now.Add(c.left)})
			s.Application.Anchors = append(s.Application.Anchors, "old")
		})
		if got := Decide(s).Strategy.Kind; got != c.want {
			t.Errorf("%s: the strategy is %s, want %s", name, got, c.want)
		}
	}
}

func TestWhoLostItsSecretAndRunsKeepsWhatItTrustsFromBeingForgotten(t *testing.T) {
	t.Parallel()
	s := cluster(stored(Absent, InUseAll), shows("keyB", "keyB"), func(s *Snapshot) {
		s.Members[0].Published = Publication{}
		next := Publication{Main: []AnchorID{"B"}, Late: []AnchorID{"B"}, Identity: Identity{Signer: "keyB"}}
		s.Members[1] = kafkaNode(s.Members[1].ID, next)
		s.Members = s.Members[:2]
	})
	if got := Decide(s).States["A"]; got != PhaseOut {
		t.Errorf("a node trusts it and was given it, and its state is %q, want %q", got, PhaseOut)
	}
}

func TestACAThatStaysBesideKeepsNoNewcomerWaiting(t *testing.T) {
	t.Parallel()
	s := atRest(2, func(s *Snapshot) {
		s.Anchors = append(s.Anchors, Anchor{ID: "kept", Key: "kept key", NotAfter: s.Now.Add(300 * day), Stored: TrustedUnused, Kept: true})
		newcomer := kafkaNode("my-2", Publication{})
		for i := range newcomer.Roles {
			newcomer.Roles[i].Evidence = Evidence{Process: ProcessNone}
		}
		s.Members = append(s.Members, newcomer)
	})
	plan := Decide(s)
	if signer := plan.Publications["my-2"].Identity.Signer; len(plan.Excluded) > 0 || signer != "keyA" {
		t.Errorf("%v are apart, and the newcomer is given a leaf of %q", plan.Excluded, signer)
	}
}

func TestWhoseMountsNobodyKnowsKeepsWhatHasExpiredBesideWhatServes(t *testing.T) {
	t.Parallel()
	s := cluster(stored(InUseAll, Untrusted), shows("keyA", "?"), expiredA, func(s *Snapshot) {
		for i := range s.Members[:2] {
			s.Members[i].Published.Main, s.Members[i].Published.Late = []AnchorID{"A"}, []AnchorID{"A"}
		}
	})
	given := Decide(s).Publications["my-1"]
	both := []AnchorID{"A", "B"}
	if !slices.Equal(given.Main, both) || !slices.Equal(given.Late, both) {
		t.Errorf("it is given %+v, want both anchors", given)
	}
}
