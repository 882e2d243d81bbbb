package trust

import "slices"

// usageOf counts how the roles that decide the states use an anchor: listeners of
// nodes, companions, and the holders of client certificates. The operator follows the
// states, and who presents what it was started with is the remainder, so neither counts.
type usageOf struct {
	presenters, running, using, mayUse, unknown int
	allUse                                      bool
}

func (v *view) usage(a *Anchor) usageOf {
	u := usageOf{allUse: true}
	v.roles(func(m *Member, r *Role) {
		if !decidesState(m, r) {
			return
		}
		u.presenters++
		may := false
		known := v.possible(m, r, func(s Stores) {
			hit := v.issued(s.Identity, a)
			may = may || hit
			u.allUse = u.allUse && hit
		})
		if r.Evidence.Process == ProcessRunning {
			u.running++
			if v.issued(r.Evidence.Loaded.Identity, a) {
				u.using++
				may = true
			}
		}
		if may {
			u.mayUse++
		}
		if !known {
			u.unknown++
		}
	})
	return u
}

func decidesState(m *Member, r *Role) bool {
	return r.Presents && m.Kind != Operator && r.Plane.Identity == Reloading
}

// nextState is the transition of the trust proposal for one anchor and one pass.
func (v *view) nextState(a *Anchor) State {
	switch {
	case a.Beside(v.Issuing):
		return v.keep(a)
	case a.Stored == Absent:
		return v.admit(a)
	}
	next := v.moved(a)
	if next == PhaseOut && a.Kept && !a.Compromised && a != v.target {
		return TrustedUnused // it stays
	}
	return next
}

// moved is the same for an anchor that the Secret holds, and that is not there to stay
// beside the target.
func (v *view) moved(a *Anchor) State {
	u := v.usage(a)
	if a.Stored == PhaseOut && v.retires(a) {
		return Absent
	}
	switch a.Stored {
	case Untrusted:
		if a != v.target {
			return superseded(a, u)
		}
		return v.trust(a)
	case TrustedUnused:
		if u.using == 0 && a != v.target {
			return superseded(a, u)
		}
	default:
		if u.presenters == 0 && a != v.target {
			return PhaseOut // where no leaf is known, retirement decides
		}
		v.nameLeaving(a)
	}
	return used(a.Stored, u)
}

// nameLeaving asks who still presents an anchor's leaves while a member is being removed: it is
// given no other, so that no guard on the way of that leaf names it.
func (v *view) nameLeaving(a *Anchor) {
	if a != v.target && slices.ContainsFunc(v.peers, func(m *Member) bool { return m.Leaving }) {
		v.open(GuardMainUnused, a)
	}
}

// keep brings an anchor that its owner wants beside the target to where every listener trusts it, and
// leaves it there.
func (v *view) keep(a *Anchor) State {
	switch a.Stored {
	case Absent, PhaseOut:
		return Untrusted
	case Untrusted:
		if v.open(GuardListeners, a) {
			return TrustedUnused
		}
		return Untrusted
	default:
		return used(a.Stored, v.usage(a))
	}
}

// retires reports whether an anchor that phases out may be removed. While no node runs it stays, as the
// list has it, because no node could prove that it does without it. Where no node takes part in the
// domain, that proof is not needed.
func (v *view) retires(a *Anchor) bool {
	return a != v.target && (v.anyNodeRuns() || !v.anyNode()) && v.leaves(a)
}

func (v *view) anyNodeRuns() bool {
	runs := false
	v.roles(func(m *Member, r *Role) { runs = runs || m.Kind == Node && r.Evidence.Process == ProcessRunning })
	return runs
}

// anyNode reports whether nodes take part in the domain, running or not.
func (v *view) anyNode() bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool { return m.Kind == Node })
}

// admit says whether and how an anchor enters the Secret: the target always, any other only when a peer
// still relies on it. That also restores a Secret that was lost during a rotation.
func (v *view) admit(a *Anchor) State {
	u := v.usage(a)
	switch {
	case a == v.target && u.using > 0:
		return TrustedUnused // a running cluster whose Secret is missing
	case a == v.target:
		return Untrusted
	case u.mayUse > 0 && !v.renewedOut(a):
		return TrustedUnused
	case v.reliedOn(a):
		return PhaseOut
	default:
		return Absent
	}
}

// renewedOut reports whether the Secret holds a later certificate of the anchor's key that every peer
// trusts. That certificate verifies whatever leaves there are.
func (v *view) renewedOut(a *Anchor) bool {
	return slices.ContainsFunc(v.Anchors, func(b Anchor) bool {
		return b.ID != a.ID && b.Key == a.Key && trusted(b.Stored) && b.NotAfter.After(a.NotAfter)
	})
}

// reliedOn reports whether a role is known to present the anchor's leaves or to be told to trust it.
// Missing evidence does not restore what was removed.
func (v *view) reliedOn(a *Anchor) bool {
	relied, renewedOut := false, v.renewedOut(a)
	v.roles(func(m *Member, r *Role) {
		relies := func(s Stores) {
			trusted := r.Verifies && !v.keeps(r, s.Trust, a) && slices.Contains(s.Trust, a.ID)
			relied = relied || trusted || r.Presents && !renewedOut && v.issued(s.Identity, a)
		}
		relies(m.Published.To(r.Plane))
		if !v.possible(m, r, relies) && r.Evidence.Process == ProcessRunning {
			relies(r.Evidence.Loaded) // what it was given is lost, and not what it holds
		}
	})
	return relied
}

// superseded leads an anchor out that will not be used any more, once nothing
// presents it or may come to. These two edges are not in the proposal's list, which
// would leave such an anchor for ever.
func superseded(a *Anchor, u usageOf) State {
	if u.mayUse == 0 && u.unknown == 0 {
		return PhaseOut
	}
	return used(a.Stored, u)
}

// trust says whether a new anchor is trusted where it needs to be. A renewed one
// needs to be held by itself: its predecessor will expire.
func (v *view) trust(a *Anchor) State {
	renewal := v.strategy().Kind == SameKey
	if v.open(GuardVerified, a) && (!renewal || v.open(GuardListeners, a)) {
		return TrustedUnused
	}
	return Untrusted
}

// used is the part of the proposal's list that follows from who presents the anchor.
// What is not known never counts as "none" or "all", and never takes "all" back.
func used(stored State, u usageOf) State {
	switch {
	case u.running == 0:
		return stored // "if the pods do not exist, keep"
	case u.allUse && u.unknown == 0, u.using == u.running && stored == InUseAll:
		return InUseAll
	case u.using > 0:
		return InUseAny
	case u.mayUse == 0 && u.unknown == 0 && stored != TrustedUnused && stored != Untrusted:
		return PhaseOut
	default:
		return stored
	}
}

// leaves reports whether an anchor in PHASE_OUT may be removed from the Secret. The policy agrees, no
// publication names it, and no role trusts it or may come to.
func (v *view) leaves(a *Anchor) bool {
	return v.open(GuardRetired, a) && v.open(GuardDistrusted, a)
}
