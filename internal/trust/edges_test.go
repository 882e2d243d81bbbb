package trust

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func expiredA(s *Snapshot) { s.Anchors[0].NotAfter = s.Now.Add(-time.Hour) }

func TestAnAuthorityThatHasEndedIsStillReplacedByAnother(t *testing.T) {
	t.Parallel()
	plan := Decide(atRest(3, replaced, expiredA))
	if plan.Strategy.Kind != Classic {
		t.Errorf("strategy %s: Raft clients would not be restarted", plan.Strategy.Kind)
	}
	if plan.States["B"] != Untrusted {
		t.Errorf("B is %q", plan.States["B"])
	}
}

func TestNobodyIsGivenTimeToReadWhatCannotServeHimAnyMore(t *testing.T) {
	t.Parallel()
	s := atRest(3, replaced, expiredA)
	for range 3 {
		s.write(Decide(s))
	}
	for _, m := range s.Members {
		if m.Published.Identity.Signer != "keyB" {
			t.Errorf("%s is still given %q", m.ID, m.Published.Identity.Signer)
		}
	}
}

func TestADomainInWhichNoNodeTakesPartRetiresItsOldAnchors(t *testing.T) {
	t.Parallel()
	unused := func(changes ...change) Snapshot {
		s := atRest(0, append([]change{replaced, func(s *Snapshot) {
			s.Members, s.Policy.Retirement = nil, RetireExpired
		}}, changes...)...)
		for range 5 {
			s.write(Decide(s))
		}
		return s
	}
	if s := unused(); s.Anchors[0].Stored == Absent {
		t.Error("A has gone before its end")
	}
	if s := unused(expiredA); s.Anchors[0].Stored != Absent || !slices.Equal(s.Application.Anchors, []AnchorID{"B"}) {
		t.Errorf("A is %q, applications read %v", s.Anchors[0].Stored, s.Application.Anchors)
	}
}

// claiming has a node name an authority that nobody knows.
func claiming(id MemberID, loaded Stores) change {
	return func(s *Snapshot) {
		for i := range s.Members {
			for j := range s.Members[i].Roles {
				if r := &s.Members[i].Roles[j]; s.Members[i].ID == id && r.Plane != raftPlane {
					r.Evidence.Loaded = loaded
				}
			}
		}
	}
}

func TestWhoClaimsAnUnknownAuthorityHoldsUpHimselfOnly(t *testing.T) {
	t.Parallel()
	for name, loaded := range map[string]Stores{
		"as what it trusts and presents":  {Trust: []AnchorID{"X"}, Identity: Identity{Signer: "unknown signer of x"}},
		"as what it trusts beside others": {Trust: []AnchorID{"A", "X"}, Identity: Identity{Signer: "keyA"}},
		"as what it presents":             {Trust: []AnchorID{"A"}, Identity: Identity{Signer: "unknown signer of x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := atRest(3, replaced, crossed, claiming("my-2", loaded))
			end := Project(s)
			if len(end.Blocked) > 0 {
				t.Errorf("the others wait: %+v", end.Blocked)
			}
			plan := Decide(s)
			if len(plan.Excluded) != 1 || plan.Excluded[0].Member != "my-2" || plan.Excluded[0].Reason != UnknownClaims {
				t.Errorf("excluded: %+v", plan.Excluded)
			}
			if slices.ContainsFunc(plan.Loads, func(l Load) bool { return l.Member == "my-2" }) {
				t.Error("it is asked to load again and again")
			}
		})
	}
}

func TestAClaimCountsWhereverItIsMade(t *testing.T) {
	t.Parallel()
	stranger := Stores{Trust: []AnchorID{"X"}, Identity: Identity{Signer: "unknown signer of x"}}
	for where, claim := range map[string]func(*Evidence){
		"loaded":    func(e *Evidence) { e.Loaded = stranger },
		"mounted":   func(e *Evidence) { e.Mounted = []Stores{stranger} },
		"loading":   func(e *Evidence) { e.Loading = []Stores{stranger} },
		"persisted": func(e *Evidence) { e.Persisted = []Stores{stranger} },
	} {
		for _, plane := range worldPlanes {
			t.Run(fmt.Sprintf("%s, plane %s", where, plane.Name), func(t *testing.T) {
				t.Parallel()
				s := atRest(3, replaced, crossed)
				s.write(Decide(s))
				for i := range s.Members {
					for j := range s.Members[i].Roles {
						if r := &s.Members[i].Roles[j]; s.Members[i].ID == "my-2" && r.Plane == plane {
							claim(&r.Evidence)
						}
					}
				}
				if excluded := Decide(s).Excluded; len(excluded) != 1 || excluded[0].Member != "my-2" || excluded[0].Reason != UnknownClaims {
					t.Errorf("excluded: %+v", excluded)
				}
			})
		}
	}
}

func TestNothingGoesOnWhileEveryNodeClaimsWhatNobodyKnows(t *testing.T) {
	t.Parallel()
	stranger := Stores{Trust: []AnchorID{"X"}, Identity: Identity{Signer: "unknown signer of x"}}
	s := atRest(2, replaced, crossed, claiming("my-0", stranger), claiming("my-1", stranger))
	for range 10 {
		s.write(Decide(s))
		s.Now = s.Now.Add(time.Minute)
	}
	for _, id := range []MemberID{"my-0", "my-1"} {
		i := slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == id })
		if got := s.Members[i].Published.Identity.Signer; got != "keyA" {
			t.Errorf("%s is given a leaf of %q, and nobody knows who would verify it", id, got)
		}
	}
	if got := s.Application.Anchors[0]; got != "A" {
		t.Errorf("applications read %s first", got)
	}
	if plan := Decide(s); len(plan.Excluded) > 0 || len(plan.NeedAttention) != 2 || plan.NeedAttention[0].Reason != UnknownClaims {
		t.Errorf("excluded are %+v, and %+v need attention", plan.Excluded, plan.NeedAttention)
	}
}

func TestANodeWhoseSecretIsLostWhileNobodyCanSignIsWaitedForAndNamed(t *testing.T) {
	t.Parallel()
	s := atRest(2, replaced)
	s.Anchors[0].Signs = false
	s.write(Decide(s))
	lost := &s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == "my-0" })]
	lost.Published = Publication{}

	plan := Decide(s)

	if len(plan.Excluded) > 0 || len(plan.NeedAttention) != 1 || plan.NeedAttention[0].Member != "my-0" || plan.NeedAttention[0].Reason != SecretLost {
		t.Errorf("excluded are %+v, and %+v need attention", plan.Excluded, plan.NeedAttention)
	}
	if slices.ContainsFunc(plan.Loads, func(l Load) bool { return l.Member == "my-0" }) {
		t.Error("it is to load something, and could not start again")
	}
}

func TestOnlyServersAreSetApart(t *testing.T) {
	t.Parallel()
	for _, kind := range []MemberKind{Operator, Holder} {
		s := atRest(3, replaced, crossed, func(s *Snapshot) {
			own := &s.Members[len(s.Members)-1]
			own.Kind, own.Roles[0].Evidence.Loaded.Identity.Signer = kind, "unknown signer of x"
		})
		if excluded := Decide(s).Excluded; len(excluded) > 0 {
			t.Errorf("excluded: %+v", excluded)
		}
	}
}

func TestARaftClientThatRemembersOnlyWhatIsKnownNoMoreIsDoubtedWhileAnotherAuthorityTakesOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes  []change
		excluded int
	}{
		"at rest":                  {nil, 0},
		"while another takes over": {[]change{replaced, crossed}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := atRest(3, c.changes...)
			s.write(Decide(s))
			s.Members[0].Roles[4].Evidence.Loaded.Trust = []AnchorID{"retired"}
			if excluded := Decide(s).Excluded; len(excluded) != c.excluded {
				t.Errorf("excluded: %+v", excluded)
			}
		})
	}
}

func TestARaftClientMayRememberWhatIsKnownNoMore(t *testing.T) {
	t.Parallel()
	s := atRest(3)
	s.Members[0].Roles[4].Evidence.Loaded.Trust = []AnchorID{"A", "retired"}
	if plan := Decide(s); len(plan.Excluded) > 0 {
		t.Errorf("excluded: %+v", plan.Excluded)
	}
}

func TestANewcomerThatNobodyCanSignForWaitsAlone(t *testing.T) {
	t.Parallel()
	s := atRest(2, replaced, func(s *Snapshot) {
		newcomer := kafkaNode("my-9", Publication{})
		for i := range newcomer.Roles {
			newcomer.Roles[i].Evidence = Evidence{Process: ProcessNone}
		}
		s.Members = append(s.Members, newcomer)
	})
	s.write(Decide(s))
	plan := Decide(s)
	if len(plan.Excluded) != 1 || plan.Excluded[0].Reason != NoSigner || plan.Publications["my-9"].Identity.Signer != "" {
		t.Errorf("excluded %+v, given %+v", plan.Excluded, plan.Publications["my-9"])
	}
	if end := Project(s); len(end.Blocked) > 0 {
		t.Errorf("blocked: %+v", end.Blocked)
	}
	s.Anchors[0].Signs = true
	if plan := Decide(s); len(plan.Excluded) > 0 || plan.Publications["my-9"].Identity.Signer != "keyA" {
		t.Errorf("with the key at hand: excluded %+v, given %+v", plan.Excluded, plan.Publications["my-9"])
	}
}
