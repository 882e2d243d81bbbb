package trust

import (
	"cmp"
	"slices"
	"time"
)

// How says how a member loads what is published to it.
type How string

// The ways of loading. A reload reaches what a plane can reload; a restart reaches
// everything. Where reloads are not wanted any more, what they persisted is
// deleted once the process has been started with what is published.
const (
	ByReload  How = "Reload"
	ByRestart How = "Restart"
	ByForget  How = "DeletePersistedSettings"
)

// Load is a member that has to load what is published to it.
type Load struct {
	Member MemberID
	How    How
	// Planes are those that are behind, those of the main bundle first.
	Planes []Plane
	// MayBeDeferred is true when only what it loads at its start is behind and the rotation does not wait for
	// that. The member catches up at its next restart, or is restarted before that is due.
	MayBeDeferred bool
	// Due is when a restart must be done at the latest; zero when nothing ends.
	Due    time.Time
	Reason string
}

// IsUrgent reports whether the time has come by which a restart must be done.
func (l Load) IsUrgent(now time.Time) bool { return !l.Due.IsZero() && !now.Before(l.Due) }

// loads compares what is published with what is proven. A member whose Secret is lost has
// nothing to load and could not start again, and one that is being removed loads no more.
func (v *view) loads(strategy Strategy) []Load {
	out := make([]Load, 0, len(v.Members))
	for _, m := range v.peers {
		if m.published() && !m.Leaving {
			out = v.addLoads(out, m, strategy)
		}
	}
	slices.SortStableFunc(out, func(a, b Load) int { return cmp.Compare(a.Member, b.Member) })
	return out
}

// addLoads appends what one member has to load.
func (v *view) addLoads(out []Load, m *Member, strategy Strategy) []Load {
	reload, start := v.behind(m, strategy)
	planes, atStart := inOrder(slices.Concat(reload, start)), m.atStart()
	urgent := v.startsAreUrgent(strategy) || v.promptly(m, strategy)
	if len(start) > 0 && urgent && !v.restartWaits(m, reload, strategy) {
		return append(out, Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: start[0].whyRestarted()})
	}
	if len(reload) > 0 {
		load := v.follow(m, planes, reload)
		out = append(out, load)
		if load.How == ByRestart {
			return out
		}
	}
	due := m.RestartDue(v.Policy.RestartMargin)
	over := !due.IsZero() && !v.Now.Before(due)
	if over || len(start) > 0 && !urgent {
		out = append(out, Load{Member: m.ID, How: ByRestart, Planes: atStart, MayBeDeferred: !over, Due: due, Reason: atStart[0].whyRestarted()})
	}
	return out
}

// atStart are the planes of a member that load something at its start only, in their order.
func (m *Member) atStart() []Plane {
	var planes []Plane
	for i := range m.Roles {
		if !m.Roles[i].Plane.Reloads() {
			planes = append(planes, m.Roles[i].Plane)
		}
	}
	return inOrder(planes)
}

// inOrder are the planes in their order, each once.
func inOrder(planes []Plane) []Plane {
	slices.SortFunc(planes, Plane.compare)
	return slices.Compact(planes)
}

// restartWaits reports whether a restart now would have to be repeated, because a reload or a withdrawal
// comes first. No withdrawal comes before every peer verifies the new authority, and that may need this
// very restart.
func (v *view) restartWaits(m *Member, reload []Plane, strategy Strategy) bool {
	reloads := strategy.Kind != Classic && len(reload) > 0 && v.Policy.Reload != RestartOnly
	return reloads || v.restartComes(m) && v.open(GuardVerified, v.target)
}

// follow lets a member that is behind on planes that could be reloaded catch up.
func (v *view) follow(m *Member, planes, reload []Plane) Load {
	switch {
	case v.Policy.Reload != RestartOnly && !m.Restarts:
		return Load{Member: m.ID, How: ByReload, Planes: reload}
	case m.startedAsPublished():
		return Load{Member: m.ID, How: ByForget, Planes: reload, Reason: "settings persisted by earlier reloads override the ones it was started with"}
	case m.Restarts:
		return Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: "it loads certificates only when it starts"}
	default:
		reason := cmp.Or(v.Policy.ReloadRefused, "reload is switched off")
		return Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: reason}
	}
}

// RestartDue is when the member's process must be restarted at the latest: the
// margin before the first end of what it holds from its start, and less if a start would
// gain little, or it would be started again and again. It is zero when nothing ends,
// or a start would not find anything that lasts longer.
func (m *Member) RestartDue(margin time.Duration) time.Time {
	var due time.Time
	for i := range m.Roles {
		end := m.Roles[i].Evidence.HeldUntil
		gained := m.LastsUntil.Sub(end)
		if m.Roles[i].Plane.Reloads() || end.IsZero() || gained <= 0 {
			continue
		}
		if at := end.Add(-min(margin, gained/2)); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}

// startedAsPublished reports whether only persisted settings keep the member from
// running on what is published.
func (m *Member) startedAsPublished() bool {
	for i := range m.Roles {
		r := &m.Roles[i]
		if !r.Plane.reloadsAny() || len(r.Evidence.Persisted) == 0 {
			continue
		}
		if r.same(r.Evidence.Static, m.Published.To(r.Plane)) {
			return true
		}
	}
	return false
}

// held reports whether the late listeners of a member keep what they have although
// something else is published: they accept a compromised anchor until the last of those
// who load at their start has been started without it.
func (v *view) held(m *Member) bool { return len(v.kept(m, m.Published)) > 0 }

// kept are the anchors that a member's late listeners keep in that way, once the
// publication is what it is given.
func (v *view) kept(m *Member, given Publication) []AnchorID {
	var ids []AnchorID
	for i := range v.Anchors {
		a := &v.Anchors[i]
		withdrawn := m.takesLate() && a.Compromised && a != v.target && !slices.Contains(given.Late, a.ID)
		if withdrawn && !v.open(GuardLateUnused, a) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// restartComes reports whether a restart now would have to be done once more: the
// compromised anchor is about to be withdrawn from what the node starts with.
func (v *view) restartComes(m *Member) bool {
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && a.ID != v.Issuing && slices.Contains(m.Published.Late, a.ID) && m.persists(&a)
	})
}

// startsAreUrgent reports whether the rotation waits for roles that load at their start. Without a cross
// certificate they must trust the new anchor before any node presents it. A compromised anchor must leave
// their memory now.
func (v *view) startsAreUrgent(strategy Strategy) bool {
	return strategy.Kind == Classic || slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && a.ID != v.Issuing
	})
}

// behind lists the planes of a member that run on something else than what is published to
// it: those that can reload that, without what is held, and those that have to be started for
// it. A process that does not exist is not behind.
func (v *view) behind(m *Member, strategy Strategy) (reload, start []Plane) {
	if m.Kind == Operator || m.Kind == Holder {
		return nil, nil
	}
	for i := range m.Roles {
		r := &m.Roles[i]
		if r.Evidence.Process != ProcessRunning {
			continue
		}
		if !r.loaded(m.Published.To(r.Plane)) && (!r.Plane.lateListener() || !v.held(m)) {
			reload = append(reload, r.Plane)
		}
		if v.outlived(m, r, strategy) {
			start = append(start, r.Plane)
		}
	}
	return inOrder(reload), inOrder(start)
}

// outlived reports whether a role has to be started again for what it loads at its start: it
// presents another authority's leaf, does not trust what it has to trust, or holds in memory
// what is distrusted. That it trusts more than it should is harmless otherwise.
func (v *view) outlived(m *Member, r *Role, strategy Strategy) bool {
	loaded, wanted := r.Evidence.Loaded, m.Published.To(r.Plane)
	if r.Plane.Identity == AtStart && loaded.Identity.Signer != wanted.Identity.Signer {
		return true
	}
	if r.Plane.Trust != AtStart {
		return false
	}
	if r.Plane.Prompt {
		return v.isPast(loaded.Trust, wanted.Trust, strategy)
	}
	trusts := v.accepts(loaded.Trust, Identity{Signer: v.target.Key})
	if !trusts && (strategy.Kind == Classic || wanted.Identity.Signer == v.target.Key) {
		return v.target.Stored != Absent
	}
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && slices.Contains(loaded.Trust, a.ID) && !slices.Contains(wanted.Trust, a.ID)
	})
}

// isPast reports whether a prompt role is to be started again for the trust that is published to it: once that is what it
// is to keep, and before that only where it does not trust the target in any way. An earlier certificate of a key that
// stays does not count.
func (v *view) isPast(loaded, wanted []AnchorID, strategy Strategy) bool {
	differs := slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		isLoaded, isWanted := slices.Contains(loaded, a.ID), slices.Contains(wanted, a.ID)
		return isWanted && !isLoaded || isLoaded && !isWanted && !v.isRenewedIn(loaded, &a)
	})
	if !differs {
		return false
	}
	passing := slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.ID != v.Issuing && !a.Beside(v.Issuing) && slices.Contains(wanted, a.ID)
	})
	return !passing || strategy.Kind == Classic && slices.Contains(wanted, v.Issuing) && !slices.Contains(loaded, v.Issuing)
}

// promptly reports whether a member is restarted now for its prompt roles. Where they trust the same keys
// before and after, as after a renewal, a restart changes no verification. It is then due only before the
// certificate expires.
func (v *view) promptly(m *Member, strategy Strategy) bool {
	return slices.ContainsFunc(m.Roles, func(r Role) bool {
		loaded, wanted := r.Evidence.Loaded.Trust, m.Published.To(r.Plane).Trust
		return r.Plane.Prompt && r.Evidence.Process == ProcessRunning && v.outlived(m, &r, strategy) && !slices.Equal(v.keysOf(loaded), v.keysOf(wanted))
	})
}

// keeps reports whether a role may go on trusting an anchor in memory: one that loads trust at its start, unless it must
// forget promptly and the anchor makes a difference.
func (v *view) keeps(r *Role, trust []AnchorID, a *Anchor) bool {
	return r.Plane.Trust == AtStart && (!r.Plane.Prompt || v.isRenewedIn(trust, a))
}

// isRenewedIn reports whether a trust has a later certificate of the anchor's key, so that the anchor changes nothing there.
func (v *view) isRenewedIn(trust []AnchorID, a *Anchor) bool {
	return slices.ContainsFunc(v.Anchors, func(b Anchor) bool {
		return b.ID != a.ID && b.Key == a.Key && b.NotAfter.After(a.NotAfter) && slices.Contains(trust, b.ID)
	})
}

// keysOf are the keys of anchors, each once.
func (v *view) keysOf(anchors []AnchorID) []KeyID {
	keys := make([]KeyID, 0, len(anchors))
	for _, id := range anchors {
		keys = append(keys, v.key[id])
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Holds reports whether a role runs on what it is to load, and would after a restart, as far
// as it takes part.
func (r *Role) Holds(want Stores) bool {
	held := append(slices.Clone(r.Evidence.Persisted), r.Evidence.Loaded)
	return !slices.ContainsFunc(held, func(s Stores) bool {
		return r.Verifies && !slices.Equal(s.Trust, want.Trust) || r.Presents && !s.Identity.same(want.Identity)
	})
}

// loaded reports whether the role runs on exactly these stores, and would after a
// restart, as far as it takes part and can reload them.
func (r *Role) loaded(want Stores) bool {
	if !r.same(r.Evidence.Loaded, want) {
		return false
	}
	return !slices.ContainsFunc(r.Evidence.Persisted, func(s Stores) bool { return !r.same(s, want) })
}

func (r *Role) same(s, want Stores) bool {
	if r.Verifies && r.Plane.Trust == Reloading && !slices.Equal(s.Trust, want.Trust) {
		return false
	}
	return !r.Presents || r.Plane.Identity != Reloading || s.Identity.same(want.Identity)
}

// sortedBlockers lists the peers that each anchor waits for. Only those of its first shut guard are
// listed, since the guards behind that one can only wait for the same peers.
func (v *view) sortedBlockers() []Blocker {
	at := func(b Blocker) int {
		return slices.IndexFunc(v.law.guards, func(g guard) bool { return g.name == b.Guard })
	}
	out := slices.Clone(v.asked)
	slices.SortFunc(out, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(a.Anchor, b.Anchor), cmp.Compare(at(a), at(b)), cmp.Compare(a.Who, b.Who))
	})
	first := map[AnchorID]GuardName{}
	return slices.DeleteFunc(out, func(b Blocker) bool {
		if _, ok := first[b.Anchor]; !ok {
			first[b.Anchor] = b.Guard
		}
		return first[b.Anchor] != b.Guard
	})
}
