package trust

import (
	"cmp"
	"slices"
)

// StepKind names what a plan does, in people's words.
type StepKind string

// The kinds of steps, in the order in which a rotation meets them.
const (
	// Store writes another state of an anchor into the trusted-certs Secret;
	// Absent is its removal.
	Store StepKind = "Store"
	// Announce adds an anchor to the application bundle.
	Announce StepKind = "Announce"
	// Distribute tells members to trust an anchor.
	Distribute StepKind = "Distribute"
	// SwitchLeaves gives members leaves of an anchor.
	SwitchLeaves StepKind = "SwitchLeaves"
	// Lead makes an anchor the first entry of the application bundle.
	Lead StepKind = "Lead"
	// TurnOperator gives the operator a leaf of an anchor.
	TurnOperator StepKind = "TurnOperator"
	// TakeOffCross stops presenting a cross certificate.
	TakeOffCross StepKind = "TakeOffCross"
	// Withdraw takes an anchor out of the bundle named of members.
	Withdraw StepKind = "Withdraw"
	// Retire removes an anchor from the application bundle.
	Retire StepKind = "Retire"
	// Loading is members reloading, or being restarted.
	Loading StepKind = "Load"
)

// Step is one thing that a plan does.
type Step struct {
	Kind    StepKind
	Anchor  AnchorID
	State   State      // of Store
	Members []MemberID // sorted
	Bundle  Bundle     // of Withdraw
	Planes  []Plane    // of Loading
	How     How        // of Loading
	// MayBeDeferred marks restarts that the rotation does not wait for.
	MayBeDeferred bool
	Reason        string
}

// Steps says in words what a plan changes. It is empty when the plan changes
// nothing.
func Steps(s Snapshot, p Plan) []Step {
	var out []Step
	for _, a := range sortedAnchors(s) {
		if a.Stored != p.States[a.ID] {
			out = append(out, Step{Kind: Store, Anchor: a.ID, State: p.States[a.ID]})
		}
	}
	out = append(out, applicationSteps(s, p)...)
	for _, a := range sortedAnchors(s) {
		out = append(out, publicationSteps(s, p, a)...)
	}
	return append(out, loadSteps(p)...)
}

func sortedAnchors(s Snapshot) []Anchor {
	return slices.SortedFunc(slices.Values(s.Anchors), func(a, b Anchor) int { return cmp.Compare(a.ID, b.ID) })
}

func applicationSteps(s Snapshot, p Plan) []Step {
	var out []Step
	for _, id := range p.Application {
		if !slices.Contains(s.Application.Anchors, id) {
			out = append(out, Step{Kind: Announce, Anchor: id})
		}
	}
	if len(p.Application) > 0 && len(s.Application.Anchors) > 0 && p.Application[0] != s.Application.Anchors[0] {
		out = append(out, Step{Kind: Lead, Anchor: p.Application[0]})
	}
	for _, id := range s.Application.Anchors {
		if !slices.Contains(p.Application, id) {
			out = append(out, Step{Kind: Retire, Anchor: id})
		}
	}
	return out
}

// drops reports whether an identity is another one without the cross certificate
// of an issuer.
func (i Identity) drops(issuer KeyID, from Identity) bool {
	return i.Signer == from.Signer && slices.Contains(from.Cross, issuer) && !slices.Contains(i.Cross, issuer)
}

// publicationSteps gathers, for one anchor, the members whose publication changes.
func publicationSteps(s Snapshot, p Plan, a Anchor) []Step {
	changes := []struct {
		step Step
		hit  func(m *Member, next Publication) bool
	}{
		{Step{Kind: Distribute}, func(m *Member, next Publication) bool {
			return added(m.Published.Main, next.Main, a.ID) || added(m.Published.Late, next.Late, a.ID)
		}},
		{Step{Kind: SwitchLeaves}, func(m *Member, next Publication) bool {
			return m.Kind != Operator && next.Identity.Signer == a.Key && m.Published.Identity.Signer != a.Key
		}},
		{Step{Kind: TurnOperator}, func(m *Member, next Publication) bool {
			return m.Kind == Operator && next.Identity.Signer == a.Key && m.Published.Identity.Signer != a.Key
		}},
		{Step{Kind: TakeOffCross}, func(m *Member, next Publication) bool {
			return next.Identity.drops(a.Key, m.Published.Identity)
		}},
		{Step{Kind: Withdraw, Bundle: Main}, func(m *Member, next Publication) bool {
			return added(next.Main, m.Published.Main, a.ID)
		}},
		{Step{Kind: Withdraw, Bundle: Late}, func(m *Member, next Publication) bool {
			return added(next.Late, m.Published.Late, a.ID)
		}},
	}
	var out []Step
	for _, c := range changes {
		for i := range s.Members {
			m := &s.Members[i]
			if next, ok := p.Publications[m.ID]; ok && c.hit(m, next) {
				c.step.Members = append(c.step.Members, m.ID)
			}
		}
		if len(c.step.Members) > 0 {
			c.step.Anchor = a.ID
			slices.Sort(c.step.Members)
			out = append(out, c.step)
		}
	}
	return out
}

func added(before, after []AnchorID, id AnchorID) bool {
	return slices.Contains(after, id) && !slices.Contains(before, id)
}

// loadSteps gathers the members that load in the same way for the same reason.
func loadSteps(p Plan) []Step {
	var out []Step
	for _, l := range p.Loads {
		i := slices.IndexFunc(out, func(s Step) bool {
			return s.How == l.How && s.MayBeDeferred == l.MayBeDeferred && s.Reason == l.Reason && slices.Equal(s.Planes, l.Planes)
		})
		if i < 0 {
			out = append(out, Step{Kind: Loading, How: l.How, Planes: l.Planes, MayBeDeferred: l.MayBeDeferred, Reason: l.Reason})
			i = len(out) - 1
		}
		out[i].Members = append(out[i].Members, l.Member)
	}
	return out
}
