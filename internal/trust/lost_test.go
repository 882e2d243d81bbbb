package trust

import (
	"testing"
	"time"
)

// lostStates is a domain in the middle of a replacement whose Secret with the states
// is lost: one node, which trusts and presents the old authority.
func lostStates(process Process) Snapshot {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	old := Stores{Trust: []AnchorID{"old"}, Identity: Identity{Signer: "old key"}}
	return Snapshot{
		Now: now, Issuing: "new",
		Anchors: []Anchor{
			{ID: "new", Key: "new key", NotAfter: now.Add(1000 * time.Hour)},
			{ID: "old", Key: "old key", NotAfter: now.Add(100 * time.Hour)},
		},
		Application: Application{Anchors: []AnchorID{"old", "new"}},
		Members: []Member{{
			ID: "node", Published: Publication{Main: old.Trust, Identity: old.Identity},
			Roles: []Role{{Name: "listener", Verifies: true, Presents: true, Evidence: Evidence{Process: process, Loaded: old}}},
		}},
	}
}

func TestWhoLeadsWhatIsReadSignsWhileTheStatesAreLost(t *testing.T) {
	t.Parallel()
	if got := Decide(lostStates(ProcessRunning)).Signer; got != "old" {
		t.Errorf("%s signs, and no node trusts it", got)
	}
}

func TestAnExpiredAuthorityDoesNotSignWhileTheStatesAreLost(t *testing.T) {
	t.Parallel()
	s := lostStates(ProcessRunning)
	s.Now = s.Now.Add(101 * time.Hour)
	if got := Decide(s).Signer; got != "new" {
		t.Errorf("%s signs, and has ended", got)
	}
}

func TestADomainWithoutAnAuthorityStandsStillWhateverIsKnown(t *testing.T) {
	t.Parallel()
	s := lostStates(ProcessUnknown)
	s.Issuing = ""
	if p := Decide(s); len(p.Blockers) != 1 || p.Publications["node"].Identity.Signer != "old key" {
		t.Errorf("blockers are %v, publications %v", p.Blockers, p.Publications)
	}
}
