package trust

import (
	"slices"
	"testing"
)

func leaving(s *Snapshot) { s.Members[0].Leaving = true }

func TestARotationWaitsForANodeThatIsBeingRemovedAndChangesNothingOfIt(t *testing.T) {
	t.Parallel()
	s := atRest(3, replaced, crossed, leaving)
	before := s.Members[0].Published
	for range 30 {
		plan := Decide(s)
		for _, step := range Steps(s, plan) {
			if slices.Contains(step.Members, s.Members[0].ID) {
				t.Fatalf("step %+v concerns a node that is being removed", step)
			}
		}
		s.write(plan)
		s.load(plan.Loads, false)
	}
	plan := Decide(s)
	if !s.Members[0].Published.Same(before) || s.Anchors[0].Stored != InUseAny {
		t.Errorf("it is given %+v, and the old anchor is %s", s.Members[0].Published, s.Anchors[0].Stored)
	}
	named := func(b Blocker) bool { return b.Anchor == "A" && b.Who == "my-0 tls-9093" && b.Guard == GuardMainUnused }
	if !slices.ContainsFunc(plan.Blockers, named) {
		t.Errorf("nothing says that it is waited for: %+v", plan.Blockers)
	}
}

func TestAProjectionGoesOnWithoutANodeThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	p := Project(atRest(3, replaced, crossed, leaving))
	if len(p.Blocked) > 0 {
		t.Errorf("it comes to no end: %+v", p.Blocked)
	}
}

func TestAMemberWhoseSecretIsLostIsStrandedInEveryDomain(t *testing.T) {
	t.Parallel()
	s := atRest(3, replaced)
	s.Members[0].SecretLost, s.Members[0].Published = true, Publication{}
	for i := range s.Members {
		for j := range s.Members[i].Roles {
			s.Members[i].Roles[j].Presents = false
		}
	}
	if lost := Decide(s).NeedAttention; len(lost) != 1 || lost[0].Member != "my-0" || lost[0].Reason != SecretLost {
		t.Errorf("stranded are %+v, want my-0", lost)
	}
}
