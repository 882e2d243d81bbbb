package trust

import (
	"slices"
	"testing"
	"time"
)

// shows makes the nodes present the leaves of these keys, in order; "" is a node
// without a process, "?" one that does not answer.
func shows(keys ...KeyID) change {
	return func(s *Snapshot) {
		for i, key := range keys {
			m := &s.Members[i]
			for j := range m.Roles {
				switch e := &m.Roles[j].Evidence; key {
				case "":
					*e = Evidence{Process: ProcessNone}
				case "?":
					*e = Evidence{}
				default:
					m.Published.Identity = Identity{Signer: key}
					e.Loaded.Identity = m.Published.Identity
				}
			}
		}
	}
}

// stored puts B into the Secret with a state, trusted by everybody.
func stored(a, b State) change {
	return func(s *Snapshot) {
		s.Anchors[0].Stored, s.Anchors[1].Stored = a, b
		both := []AnchorID{"A", "B"}
		s.Application.Anchors = both
		for i := range s.Members {
			m := &s.Members[i]
			if m.Kind == Operator {
				continue
			}
			m.Published.Main = both
			if m.takesLate() {
				m.Published.Late = both
			}
			for j := range m.Roles {
				m.Roles[j].Evidence.Loaded.Trust = both
			}
		}
	}
}

// cluster is two nodes without companion, while A is replaced by B.
func cluster(changes ...change) Snapshot {
	return atRest(2, append([]change{replaced, crossed, func(s *Snapshot) {
		s.Members = append(s.Members[:2:2], s.Members[3])
	}}, changes...)...)
}

func TestStatesFollowTheList(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cluster Snapshot
		a, b    State
	}{
		"a new anchor enters as untrusted":                          {cluster(), InUseAll, Untrusted},
		"it is trusted once everybody verifies it":                  {cluster(stored(InUseAll, Untrusted)), InUseAll, TrustedUnused},
		"it is not while one does not answer":                       {cluster(stored(InUseAll, Untrusted), shows("keyA", "?")), InUseAll, Untrusted},
		"unused stays unused while nobody presents it":              {cluster(stored(InUseAll, TrustedUnused), shows("keyA", "keyA")), InUseAll, TrustedUnused},
		"one node makes it used by any, and the old one too":        {cluster(stored(InUseAll, TrustedUnused), shows("keyB", "keyA")), InUseAny, InUseAny},
		"all nodes make it used by all, and the old one phases out": {cluster(stored(InUseAny, InUseAny), shows("keyB", "keyB")), PhaseOut, InUseAll},
		"both happen in one pass from unused":                       {cluster(stored(InUseAll, TrustedUnused), shows("keyB", "keyB")), PhaseOut, InUseAll},
		"without processes everything stays":                        {cluster(stored(InUseAny, InUseAny), shows("", "")), InUseAny, InUseAny},
		"a silent node is neither none nor all":                     {cluster(stored(InUseAny, InUseAny), shows("keyB", "?")), InUseAny, InUseAny},
		"a silent node does not take all back":                      {cluster(stored(PhaseOut, InUseAll), shows("keyB", "?")), PhaseOut, InUseAll},
		"an old anchor in use again comes back":                     {cluster(stored(PhaseOut, InUseAll), shows("keyA", "keyB")), InUseAny, InUseAny},
		"an old anchor that is still trusted stays in phase-out":    {cluster(stored(PhaseOut, InUseAll), shows("keyB", "keyB")), PhaseOut, InUseAll},
		"an aborted anchor that nobody presents phases out":         {cluster(stored(InUseAll, Untrusted), func(s *Snapshot) { s.Issuing = "A" }), InUseAll, PhaseOut},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Decide(test.cluster)
			if p.States["A"] != test.a || p.States["B"] != test.b {
				t.Errorf("A %q, B %q; want A %q, B %q", p.States["A"], p.States["B"], test.a, test.b)
			}
		})
	}
}

func TestAnOldAnchorStaysWhileNoNodeRuns(t *testing.T) {
	t.Parallel()
	left := func(changes ...change) State {
		s := turnedAway(append([]change{func(s *Snapshot) { s.Anchors[0].Stored = PhaseOut }}, changes...)...)
		return Decide(s).States["A"]
	}
	if got := left(); got != Absent {
		t.Errorf("while all run, without it: %q", got)
	}
	if got := left(shows("", "keyB")); got != Absent {
		t.Errorf("while one runs, without it: %q", got)
	}
	if got := left(shows("", "")); got != PhaseOut {
		t.Errorf("while none runs: %q", got)
	}
}

func TestARestartThatNobodyWaitsForIsDoneBeforeItIsDue(t *testing.T) {
	t.Parallel()
	build := func(left time.Duration) []Load {
		s := cluster(stored(PhaseOut, InUseAll), shows("keyB", "keyB"))
		s.Policy.RestartMargin = 24 * time.Hour
		s.Members = s.Members[:1]
		raft := &s.Members[0].Roles[4]
		raft.Evidence.Loaded.Identity = Identity{Signer: "keyA"}
		raft.Evidence.HeldUntil = s.Now.Add(left)
		s.Members[0].LastsUntil = s.Now.Add(90 * 24 * time.Hour)
		return Decide(s).Loads
	}
	if early := build(48 * time.Hour); len(early) != 1 || !early[0].MayBeDeferred || !early[0].Due.Equal(worldTime.Add(24*time.Hour)) {
		t.Errorf("two days before: %+v", early)
	}
	if due := build(12 * time.Hour); len(due) != 1 || due[0].MayBeDeferred || due[0].How != ByRestart {
		t.Errorf("half a day before: %+v", due)
	}
}

// A user's authority that is not renewed takes its leaves with it, and restarts do not
// help.
func TestNobodyIsRestartedForWhatWouldEndAsEarly(t *testing.T) {
	t.Parallel()
	now, margin := worldTime, 24*time.Hour
	for name, c := range map[string]struct {
		held, lasts time.Time
		due         time.Time
	}{
		"nothing is known":                    {},
		"it is not known what a start finds":  {held: now.Add(time.Hour)},
		"a start finds the same":              {held: now.Add(time.Hour), lasts: now.Add(time.Hour)},
		"a start finds what ends earlier":     {held: now.Add(time.Hour), lasts: now},
		"a start gains months":                {held: now.Add(48 * time.Hour), lasts: now.Add(2000 * time.Hour), due: now.Add(24 * time.Hour)},
		"a start gains less than the margin":  {held: now.Add(48 * time.Hour), lasts: now.Add(54 * time.Hour), due: now.Add(45 * time.Hour)},
		"what is held has ended, months wait": {held: now.Add(-time.Hour), lasts: now.Add(2000 * time.Hour), due: now.Add(-25 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Member{LastsUntil: c.lasts, Roles: []Role{{Plane: raftPlane, Evidence: Evidence{HeldUntil: c.held}}}}
			if got := m.RestartDue(margin); !got.Equal(c.due) {
				t.Errorf("due %v, want %v", got, c.due)
			}
		})
	}
}

func TestThePlanTellsTheDeadlineThatExpirySets(t *testing.T) {
	t.Parallel()
	s := cluster(func(s *Snapshot) { s.Policy.Paused = true })
	if got := Decide(s).Deadline; !got.Equal(s.Anchors[0].NotAfter) {
		t.Errorf("deadline %v, want the end of A", got)
	}
	if got := Decide(atRest(3)).Deadline; !got.IsZero() {
		t.Errorf("deadline %v of a domain at rest", got)
	}
}

func TestSilenceDoesNotKeepAClusterDownWhoseAuthorityHasExpired(t *testing.T) {
	t.Parallel()
	s := cluster(shows("?", "?"), func(s *Snapshot) {
		s.Anchors[0].NotAfter, s.Anchors[1].Cross = s.Now.Add(-time.Hour), nil
	})
	for range 10 {
		s.write(Decide(s))
		s.Now = s.Now.Add(time.Minute)
	}
	for _, m := range s.Members {
		if m.Published.Identity.Signer != "keyB" {
			t.Errorf("%s is still given %q", m.ID, m.Published.Identity.Signer)
		}
	}
}

func TestSilenceKeepsEverythingWhileTheOldAuthorityLives(t *testing.T) {
	t.Parallel()
	s := cluster(shows("?", "?"))
	for range 10 {
		s.write(Decide(s))
		s.Now = s.Now.Add(time.Minute)
	}
	for _, m := range s.Members {
		if m.Published.Identity.Signer != "keyA" {
			t.Errorf("%s is given %q", m.ID, m.Published.Identity.Signer)
		}
	}
}

// turnedAway is a cluster that has left a compromised A behind, save the cross
// certificate that its nodes still send along.
func turnedAway(changes ...change) Snapshot {
	return cluster(append([]change{distrusted, stored(Absent, InUseAll), shows("keyB", "keyB"), func(s *Snapshot) {
		s.Application.Anchors = []AnchorID{"B"}
		s.Application.Since = s.Now.Add(-time.Minute)
		s.Policy.Lead = 2 * time.Minute
		for i := range s.Members {
			m := &s.Members[i]
			m.Published = Publication{Main: []AnchorID{"B"}, Late: []AnchorID{"B"}, Identity: Identity{Signer: "keyB", Cross: []KeyID{"keyA"}}}
			if m.Kind == Operator {
				m.Published = Publication{Identity: Identity{Signer: "keyB"}}
			}
			for j := range m.Roles {
				m.Roles[j].Evidence.Loaded = m.Published.To(m.Roles[j].Plane)
			}
		}
	}}, changes...)...)
}

func TestTheCrossCertificateOfACompromisedAuthorityStaysUntilApplicationsHaveRead(t *testing.T) {
	t.Parallel()
	s := turnedAway()
	if plan := Decide(s); plan.Done || len(plan.Publications["my-0"].Identity.Cross) == 0 || !slices.Equal(plan.CrossSigners, []KeyID{"keyA"}) {
		t.Errorf("after a minute: done %t, cross-signers %v, published %+v", plan.Done, plan.CrossSigners, plan.Publications["my-0"].Identity)
	}
	s.Now = s.Now.Add(time.Minute)
	plan := Decide(s)
	if len(plan.Publications["my-0"].Identity.Cross) > 0 || plan.Done {
		t.Errorf("after two minutes: done %t, published %+v", plan.Done, plan.Publications["my-0"].Identity)
	}
	for range 3 { // take it off, load that, forget its issuer
		s.write(plan)
		s.load(plan.Loads, false)
		plan = Decide(s)
	}
	if !plan.Done || len(plan.CrossSigners) > 0 {
		t.Errorf("at the end: done %t, cross-signers %v", plan.Done, plan.CrossSigners)
	}
}

func TestWhoIsSilentMayPresentAnyCrossCertificate(t *testing.T) {
	t.Parallel()
	s := turnedAway(shows("keyB", "?"))
	for i := range s.Members {
		s.Members[i].Published.Identity.Cross = nil
	}
	if plan := Decide(s); plan.Done || !slices.Equal(plan.CrossSigners, []KeyID{"keyA"}) {
		t.Errorf("done %t, cross-signers %v", plan.Done, plan.CrossSigners)
	}
}

func TestADistrustedAuthorityOfWhichNoCertificateIsKnownStopsCrossSigning(t *testing.T) {
	t.Parallel()
	s := turnedAway(func(s *Snapshot) {
		s.Anchors = slices.DeleteFunc(s.Anchors, func(a Anchor) bool { return a.ID == "A" })
	})
	if plan := Decide(s); plan.Done || !slices.Equal(plan.CrossSigners, []KeyID{"keyA"}) {
		t.Errorf("done %t, cross-signers %v", plan.Done, plan.CrossSigners)
	}
}

// A node that has not loaded the new CA yet verifies its certificates by way of the old one.
func TestTheOperatorWhoseCertificateIsLostIsGivenTheCrossCertificateThatNodesNeed(t *testing.T) {
	t.Parallel()
	s := cluster()
	s.Anchors[0].Stored, s.Anchors[1].Stored = InUseAll, TrustedUnused
	s.Application.Anchors = []AnchorID{"B", "A"}
	operator := &s.Members[2]
	give := func(identity Identity) {
		operator.Published.Identity, operator.Roles[0].Evidence.Loaded.Identity = identity, identity
	}
	give(Identity{})

	given := Decide(s).Publications["operator"].Identity
	if want := (Identity{Signer: "keyB", Cross: []KeyID{"keyA"}}); !given.same(want) {
		t.Fatalf("while nodes trust the old CA alone it is given %+v, want %+v", given, want)
	}
	give(given)
	if again := Decide(s).Publications["operator"].Identity; !again.same(given) {
		t.Errorf("then it is given %+v, want %+v", again, given)
	}
}
