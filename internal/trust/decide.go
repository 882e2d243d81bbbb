package trust

import (
	"slices"
	"time"
)

// Plan is what the objects of the domain should hold next, and why not more.
type Plan struct {
	Strategy Strategy
	// States is what the trusted-certs Secret should hold: the state of every
	// anchor, Absent for those that it should not, or no longer, hold.
	States map[AnchorID]State
	// Signer is the anchor whose key signs leaves that no publication determines: those of users and new
	// members.
	Signer AnchorID
	// Application is the bundle for applications, in its order.
	Application []AnchorID
	// Publications is what each member should be given.
	Publications map[MemberID]Publication
	// Interim are the keys of which a member may be given a leaf that it needs, while its issuer offers none of what is
	// planned. Nothing goes back from the key that it is to have in the end.
	Interim map[MemberID][]KeyID
	// Kept are the anchors that the late listeners of a member go on
	// accepting although what it is started with does not hold them any more.
	Kept map[MemberID][]AnchorID
	// CrossSigners are the keys whose cross certificates are presented, may come to be, or are to be, sorted.
	// What such a key signed must stay known. Otherwise the operator could not tell what those certificates
	// are for.
	CrossSigners []KeyID
	// Loads are the members that have not loaded what is published to them.
	Loads []Load
	// Blockers are the guards that are shut, by guard, anchor and peer.
	Blockers []Blocker
	// Excluded are the members that the rotation does not wait for, in the order of the snapshot.
	Excluded []Exclusion
	// NeedAttention are the members that are waited for and that only a person can help.
	NeedAttention []Exclusion
	// Deadline is the first end of an anchor that is not the one to stay: what
	// relies on it is cut off then. Zero when there is none. Expiry makes things
	// urgent, and never changes their order.
	Deadline time.Time
	// Done is true when one authority is trusted and used, and nothing else.
	Done bool
}

// Decide says what comes next. It is total, deterministic, and stable: asked
// again with what it wanted written and nothing else changed, it goes on from
// there and never back.
func Decide(s Snapshot) Plan {
	return decide(s, theLaw())
}

// decide is Decide under a given law.
func decide(s Snapshot, l law) Plan {
	v := newView(s, l)
	if v.target == nil || s.Policy.Paused {
		return v.unchanged()
	}
	p := Plan{
		Strategy: v.strategy(), States: map[AnchorID]State{},
		Publications: make(map[MemberID]Publication, len(s.Members)), Kept: map[MemberID][]AnchorID{}, Interim: map[MemberID][]KeyID{},
	}
	for i := range s.Anchors {
		p.States[s.Anchors[i].ID] = v.nextState(&s.Anchors[i])
	}
	p.Signer = v.signer().ID
	p.Application = v.nextApplication()
	for i := range s.Members {
		m := &s.Members[i]
		p.Publications[m.ID] = v.nextPublication(m)
		if interim := v.interim(m, p.Publications[m.ID]); len(interim) > 0 {
			p.Interim[m.ID] = interim
		}
		if kept := v.kept(m, p.Publications[m.ID]); len(kept) > 0 {
			p.Kept[m.ID] = kept
		}
	}
	p.CrossSigners = v.crossSigners(p.Publications)
	p.Loads = v.loads(p.Strategy)
	p.Blockers, p.Excluded, p.NeedAttention, p.Deadline = v.sortedBlockers(), v.excluded, v.needAttention(), v.deadline()
	p.Done = v.done(p)
	return p
}

// unchanged is the plan that changes nothing.
func (v *view) unchanged() Plan {
	p := Plan{
		States: map[AnchorID]State{}, Application: v.Application.Anchors,
		Publications: map[MemberID]Publication{}, Deadline: v.deadline(),
	}
	for _, a := range v.Anchors {
		p.States[a.ID] = a.Stored
	}
	for _, m := range v.Members {
		p.Publications[m.ID] = m.Published
	}
	p.CrossSigners = v.crossSigners(p.Publications)
	who, what := "pause", "reconciliation is paused; certificates keep expiring"
	if v.target == nil {
		who, what = "authority", "there is no issuing CA certificate"
	}
	p.Blockers = []Blocker{{Guard: GuardRunning, Anchor: v.Issuing, Who: who, What: what}}
	return p
}

// deadline is the first end of a stored anchor that is to go.
func (v *view) deadline() time.Time {
	var first time.Time
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if a != v.target && a.Stored != Absent && !a.Beside(v.Issuing) && (first.IsZero() || a.NotAfter.Before(first)) {
			first = a.NotAfter
		}
	}
	return first
}

// nextApplication adds early and removes last: an anchor leaves only when it has
// left everything else. The first entry is the anchor that all nodes present.
func (v *view) nextApplication() []AnchorID {
	var rest []AnchorID
	for i := range v.Anchors {
		a := &v.Anchors[i]
		held := slices.Contains(v.Application.Anchors, a.ID)
		// An anchor that was stored last time and is gone from the Secret has
		// passed NobodyTrustsOld, unless its owner has only just added it.
		if a == v.target || a.Stored != Absent || held && (a.Beside(v.Issuing) || v.shownByNodes(a)) {
			rest = append(rest, a.ID)
		}
	}
	lead := v.lead(rest)
	rest = slices.DeleteFunc(rest, func(id AnchorID) bool { return id == lead })
	slices.Sort(rest)
	if lead == "" {
		return rest
	}
	return append([]AnchorID{lead}, rest...)
}

// lead is the first entry of the application bundle, which is all that many
// readers take: the target as soon as it verifies whatever any node presents,
// otherwise what led so far.
func (v *view) lead(held []AnchorID) AnchorID {
	if v.mayLead() {
		return v.target.ID
	}
	for _, id := range v.Application.Anchors {
		if slices.Contains(held, id) {
			return id
		}
	}
	return v.target.ID
}

// mayLead reports whether an application that trusts only the target verifies every node, whatever it may
// come to present. Where nodes present nothing of the domain, the bundle tells clients which authority
// must sign their certificates. The target then leads once every node verifies it.
func (v *view) mayLead() bool {
	if !v.nodesPresent() {
		return v.open(GuardVerified, v.target)
	}
	target := []AnchorID{v.target.ID}
	return len(v.blockersWhere(
		func(m *Member, r *Role) bool { return m.Kind == Node && r.Presents && r.Plane.Bundle == Main },
		func(_ *Member, _ *Role, s Stores) bool {
			return s.Identity.Signer == "" || v.accepts(target, s.Identity)
		}, saying{})) == 0
}

// nodesPresent reports whether nodes present leaves of this domain to applications.
func (v *view) nodesPresent() bool {
	present := false
	v.roles(func(m *Member, r *Role) { present = present || m.Kind == Node && r.Presents && r.Plane.Bundle == Main })
	return present
}

// shownByNodes reports whether a node presents the anchor's leaves, may come to,
// or does not say.
func (v *view) shownByNodes(a *Anchor) bool {
	shown := false
	v.roles(func(m *Member, r *Role) {
		if m.Kind != Node || !r.Presents {
			return
		}
		known := v.possible(m, r, func(s Stores) { shown = shown || v.issued(s.Identity, a) })
		shown = shown || !known
	})
	return shown
}

// nextPublication is what one member should be given: nothing that the Secret does not
// hold yet, and nothing else while it is being removed or its certificate cannot be signed.
func (v *view) nextPublication(m *Member) Publication {
	identity := v.nextIdentity(m)
	switch {
	case v.target.Stored == Absent, m.Leaving, m.presents() && identity.Signer == "":
		return m.Published
	case !v.open(GuardMounted, v.target) && v.lagging[m.ID]:
		return v.rescue(m, identity)
	case m.Kind == Operator, m.Kind == Holder:
		return Publication{Identity: identity}
	}
	main, late := v.nextTrust(m)
	return Publication{Main: main, Late: late, Identity: identity}
}

// nextTrust are the anchors of a member's bundles, sorted.
func (v *view) nextTrust(m *Member) (main, late []AnchorID) {
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if v.stays(a, m, m.Published.Main, GuardMainUnused) {
			main = append(main, a.ID)
		}
		if m.takesLate() && !v.early(a, m) && v.stays(a, m, m.Published.Late, GuardLateUnused) {
			late = append(late, a.ID)
		}
	}
	slices.Sort(main)
	slices.Sort(late)
	return main, late
}

// rescue is what a member is given of which it is not known what it has mounted:
// nothing else than it has, unless all of that has expired. Then it gets what it can go
// on with, and keeps the rest, which a start with an older publication would wait for.
func (v *view) rescue(m *Member, identity Identity) Publication {
	expired := v.blind(m.Published.Main) || m.presents() && m.Published.Identity.Signer != v.target.Key
	if !v.onlyTargetLives() || !expired {
		return m.Published
	}
	with := func(trust []AnchorID) []AnchorID {
		if slices.Contains(trust, v.target.ID) {
			return trust
		}
		return slices.Sorted(slices.Values(append(slices.Clone(trust), v.target.ID)))
	}
	next := Publication{Main: with(m.Published.Main), Identity: identity}
	if m.takesLate() {
		next.Late = with(m.Published.Late)
	}
	return next
}

// stays reports whether the anchor is to be in a bundle of the member. A withdrawn anchor is not published
// again while it is in PHASE_OUT. An anchor that was removed from the Secret by hand is not withdrawn for
// that.
func (v *view) stays(a *Anchor, m *Member, now []AnchorID, unused GuardName) bool {
	held := slices.Contains(now, a.ID)
	switch {
	case a.Stored == Absent:
		return held
	case a == v.target || a.Stored != PhaseOut:
		return true
	case m.published() && !held:
		return false
	}
	ready := v.open(GuardListeners, v.target) && v.open(GuardRetired, a)
	return !ready || !v.open(unused, a)
}

// early reports whether a compromised anchor is withdrawn from what a node starts with, before its
// reloading late listeners stop accepting it. They keep their persisted settings, while roles that load at
// their start take the new ones. So one restart of each node removes the anchor from all memory.
func (v *view) early(a *Anchor, m *Member) bool {
	return a.Compromised && a != v.target && a.Stored == PhaseOut && m.persists(a) &&
		v.open(GuardListeners, v.target) && v.open(GuardListenersTurned, a)
}

// persists reports whether the listeners of the late bundle would still accept the anchor
// after a restart, because of settings that the server has persisted.
func (m *Member) persists(a *Anchor) bool {
	return !slices.ContainsFunc(m.Roles, func(r Role) bool {
		return r.Plane.lateListener() && !slices.ContainsFunc(r.Evidence.Persisted, func(s Stores) bool {
			return slices.Contains(s.Trust, a.ID)
		})
	})
}

// nextIdentity is what the member should present.
func (v *view) nextIdentity(m *Member) Identity {
	switch {
	case m.Kind == Holder || !m.presents():
		return m.Published.Identity
	case m.Kind == Operator:
		return v.operatorIdentity(m)
	case m.Published.Identity.Signer == v.target.Key:
		return v.future()
	case !v.mayIssue():
		return v.currentIdentity(m)
	default:
		return v.future()
	}
}

// mayIssue reports whether leaves may be signed by the target.
func (v *view) mayIssue() bool {
	verified := v.open(GuardVerified, v.target)
	applications := v.open(GuardApplications, v.target)
	return trusted(v.target.Stored) && verified && applications
}

// operatorIdentity turns last of all identities, and never to what a listener
// does not know: unless what it has now is expired and serves it nowhere. One that was
// lost and signed anew in the middle keeps its cross certificates as nodes keep theirs.
func (v *view) operatorIdentity(m *Member) Identity {
	switch published := m.Published.Identity; {
	case published.Signer == v.target.Key && len(published.Cross) > 0:
		return v.future()
	case published.Signer == v.target.Key:
		return v.operatorFuture()
	}
	if v.onlyTargetLives() || v.target.Stored == InUseAll && v.open(GuardListeners, v.target) {
		return v.operatorFuture()
	}
	return v.currentIdentity(m)
}

// operatorFuture is the identity that the target will sign for the operator. Servers that are to be restarted for what they trust
// verify it by the cross certificates until then.
func (v *view) operatorFuture() Identity {
	for i := range v.Members {
		if slices.ContainsFunc(v.Members[i].Roles, func(r Role) bool { return r.Verifies && r.Plane.Prompt && r.Plane.Trust == AtStart }) {
			return v.future()
		}
	}
	return Identity{Signer: v.target.Key}
}

// currentIdentity is what the member presents now, and what a new member is given
// until the target may sign.
func (v *view) currentIdentity(m *Member) Identity {
	if m.Published.Identity.Signer != "" {
		return m.Published.Identity
	}
	if m.Kind != Operator && v.isExcluded(m, NoSigner) {
		return Identity{}
	}
	return v.signedBy(v.signer())
}

// begun reports whether a node has been given a leaf of the target. By then every peer had proven to
// verify it, and later members were told to trust it.
func (v *view) begun() bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool {
		return m.Kind == Node && m.Published.Identity.Signer == v.target.Key
	})
}

// targetSigns reports whether the target signs for members without a leaf. A leaf that an issuer offers
// may have been given to a node before every peer had proven to verify it.
func (v *view) targetSigns() bool {
	switch {
	case !v.begun():
		return v.mayIssue()
	case v.Policy.Issuance == Offered:
		return len(unverified(v, v.target)) == 0
	default:
		return true
	}
}

// signer is the target once it may issue, and until then the anchor that is used
// most. When the Secret that says so is lost, it is the one that applications read
// first.
func (v *view) signer() *Anchor {
	best := v.target
	if v.targetSigns() {
		return best
	}
	for i := range v.Anchors {
		a := &v.Anchors[i]
		leads := len(v.Application.Anchors) > 0 && a.ID == v.Application.Anchors[0]
		if leads && !a.Beside(v.Issuing) && best.Stored == Absent && v.Now.Before(a.NotAfter) {
			best = a
		}
	}
	for i := range v.Anchors {
		if a := &v.Anchors[i]; usage(a.Stored) > usage(best.Stored) && !a.Beside(v.Issuing) {
			best = a
		}
	}
	return best
}

// usage orders states by how much an anchor is used.
func usage(s State) int {
	return slices.Index([]State{Absent, Untrusted, PhaseOut, TrustedUnused, InUseAny, InUseAll}, s)
}

// done reports whether nothing is left to do.
func (v *view) done(p Plan) bool {
	for i := range v.Anchors {
		a := &v.Anchors[i]
		want := Absent
		switch {
		case a == v.target:
			want = v.atRest()
		case a.Beside(v.Issuing):
			want = TrustedUnused
		}
		if a.Stored != want || p.States[a.ID] != want {
			return false
		}
	}
	return len(p.Loads) == 0 && v.offersTarget() && !v.isCrossSignedByDistrusted(p.CrossSigners)
}

// isCrossSignedByDistrusted reports whether a key that a person distrusts, known by a
// certificate or not, is among those whose cross certificates are sent along.
func (v *view) isCrossSignedByDistrusted(signers []KeyID) bool {
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool { return a.Compromised && slices.Contains(signers, a.Key) }) ||
		slices.ContainsFunc(v.target.Cross, func(c Cross) bool { return c.Distrusted && slices.Contains(signers, c.Issuer) })
}

// offersTarget reports whether applications are offered the target first, and nothing
// else but what stays beside it.
func (v *view) offersTarget() bool {
	offered := v.Application.Anchors
	if len(offered) == 0 || offered[0] != v.Issuing {
		return false
	}
	for i := range v.Anchors {
		if a := &v.Anchors[i]; slices.Contains(offered[1:], a.ID) && !a.Beside(v.Issuing) {
			return false
		}
	}
	return true
}

// crossSigners finds the keys whose cross certificates are included in chains. What a role presents since its
// start does not count, because it is not restarted for that. A role without evidence may include every
// one.
func (v *view) crossSigners(given map[MemberID]Publication) []KeyID {
	var keys []KeyID
	note := func(key KeyID) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	sent := func(i Identity) {
		for _, key := range i.Cross {
			note(key)
		}
	}
	v.roles(func(m *Member, r *Role) {
		if !r.Presents {
			return
		}
		sent(m.Published.Identity)
		sent(given[m.ID].Identity)
		if r.Plane.Identity == Reloading && !v.possible(m, r, func(s Stores) { sent(s.Identity) }) {
			for i := range v.Anchors {
				for _, c := range v.Anchors[i].Cross {
					note(c.Issuer)
				}
			}
		}
	})
	slices.Sort(keys)
	return keys
}

// atRest is the state of the target when nothing is left to do. Where no leaf is
// known, none is known to be used.
func (v *view) atRest() State {
	if !v.leavesKnown() {
		return TrustedUnused
	}
	return InUseAll
}

// leavesKnown reports whether any role that decides the states presents leaves.
func (v *view) leavesKnown() bool {
	known := false
	v.roles(func(m *Member, r *Role) { known = known || decidesState(m, r) })
	return known
}
