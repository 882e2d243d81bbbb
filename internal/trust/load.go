package trust

import (
	"cmp"
	"slices"
	"time"
)

// How says how a member loads what is published to it.
type How string

// The ways of loading. A reload reaches every role but Raft clients; a restart
// reaches all. Where reloads are not wanted any more, what they persisted is
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
	// Planes are those that are behind, ascending.
	Planes []Plane
	// Remainder is true when only its Raft client is behind and nobody waits for
	// it: the restart comes with the next one, or is done before it is due.
	Remainder bool
	// Due is when a restart must be done at the latest; zero when nothing ends.
	Due    time.Time
	Reason string
}

// loads compares what is published with what is proven. Who is given nothing, because
// its Secret is lost, has nothing to load, and could not start again.
func (v *view) loads(strategy Strategy) []Load {
	out := make([]Load, 0, len(v.Members))
	for _, m := range v.peers {
		if m.published() {
			out = v.addLoads(out, m, strategy)
		}
	}
	slices.SortStableFunc(out, func(a, b Load) int { return cmp.Compare(a.Member, b.Member) })
	return out
}

// addLoads appends what one member has to load.
func (v *view) addLoads(out []Load, m *Member, strategy Strategy) []Load {
	planes := slices.DeleteFunc(v.behind(m, strategy), func(p Plane) bool { return p == Control && v.held(m) })
	reloadable := slices.DeleteFunc(slices.Clone(planes), func(p Plane) bool { return p == Raft })
	raft, urgent := len(planes) > len(reloadable), v.raftIsUrgent(strategy)
	if raft && urgent && !v.restartWaits(m, reloadable, strategy) {
		return append(out, Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: raftKeeps})
	}
	if len(reloadable) > 0 {
		load := v.follow(m, planes, reloadable)
		out = append(out, load)
		if load.How == ByRestart {
			return out
		}
	}
	due := m.RestartDue(v.Policy.RestartMargin)
	over := !due.IsZero() && !v.Now.Before(due)
	if over || raft && !urgent {
		out = append(out, Load{Member: m.ID, How: ByRestart, Planes: []Plane{Raft}, Remainder: !over, Due: due, Reason: raftKeeps})
	}
	return out
}

// restartWaits reports whether a restart for the Raft client's sake would have to
// be done once more: a reload is on its way, or a withdrawal. While somebody does not
// verify the new authority yet no withdrawal comes, and it may be this very restart
// that is waited for.
func (v *view) restartWaits(m *Member, reloadable []Plane, strategy Strategy) bool {
	reloads := strategy.Kind != Classic && len(reloadable) > 0 && v.Policy.Reload != RestartOnly
	return reloads || v.restartComes(m) && v.open(GuardVerified, v.target)
}

// follow lets a member that is behind on planes that could be reloaded catch up.
func (v *view) follow(m *Member, planes, reloadable []Plane) Load {
	switch {
	case v.Policy.Reload != RestartOnly && !m.Restarts:
		return Load{Member: m.ID, How: ByReload, Planes: reloadable}
	case m.startedAsPublished():
		return Load{Member: m.ID, How: ByForget, Planes: reloadable, Reason: "settings persisted by earlier reloads override the ones it was started with"}
	case m.Restarts:
		return Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: "it loads certificates only when it starts"}
	default:
		reason := cmp.Or(v.Policy.ReloadRefused, "reload is switched off")
		return Load{Member: m.ID, How: ByRestart, Planes: planes, Reason: reason}
	}
}

// RestartDue is when the member's process must be restarted at the latest: the
// margin before the first end of what its Raft client holds, and less if a start would
// gain little, or it would be started again and again. It is zero when nothing ends,
// or a start would not find anything that lasts longer.
func (m *Member) RestartDue(margin time.Duration) time.Time {
	var due time.Time
	for i := range m.Roles {
		end := m.Roles[i].Evidence.HeldUntil
		gained := m.LastsUntil.Sub(end)
		if m.Roles[i].Plane != Raft || end.IsZero() || gained <= 0 {
			continue
		}
		if at := end.Add(-min(margin, gained/2)); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	return due
}

// raftKeeps is why a restart is needed where everything else reloads.
const raftKeeps = "the Raft client keeps the certificates that it was started with"

// startedAsPublished reports whether only persisted settings keep the member from
// running on what is published.
func (m *Member) startedAsPublished() bool {
	for i := range m.Roles {
		r := &m.Roles[i]
		if r.Plane == Raft || len(r.Evidence.Persisted) == 0 {
			continue
		}
		if r.same(r.Evidence.Static, publishedTo(m, r)) {
			return true
		}
	}
	return false
}

// held reports whether the control plane of a member keeps what it has although
// something else is published: its controller listener accepts a compromised
// anchor until the last Raft client has been started without it.
func (v *view) held(m *Member) bool { return len(v.kept(m, m.Published)) > 0 }

// kept are the anchors that a member's controller listener keeps in that way, once
// the publication is what it is given.
func (v *view) kept(m *Member, given Publication) []AnchorID {
	var ids []AnchorID
	for i := range v.Anchors {
		a := &v.Anchors[i]
		withdrawn := m.controls() && a.Compromised && a != v.target && !slices.Contains(given.Control, a.ID)
		if withdrawn && !v.open(GuardControlUnused, a) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// restartComes reports whether a restart now would have to be done once more: the
// compromised anchor is about to be withdrawn from what the node starts with.
func (v *view) restartComes(m *Member) bool {
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && a.ID != v.Issuing && slices.Contains(m.Published.Control, a.ID) && m.keeps(&a)
	})
}

// raftIsUrgent reports whether the rotation waits for Raft clients: without a
// cross certificate they must trust the new anchor before anybody presents it,
// and a compromised anchor must leave their memory now.
func (v *view) raftIsUrgent(strategy Strategy) bool {
	return strategy.Kind == Classic || slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && a.ID != v.Issuing
	})
}

// behind lists the planes of a member that run on something else than what is
// published to it. A process that does not exist is not behind.
func (v *view) behind(m *Member, strategy Strategy) []Plane {
	var out []Plane
	for i := range m.Roles {
		r := &m.Roles[i]
		if m.Kind == Operator || m.Kind == Holder || r.Evidence.Process != ProcessRunning || slices.Contains(out, r.Plane) {
			continue
		}
		if r.Plane == Raft && v.raftBehind(m, r, strategy) || r.Plane != Raft && !r.loaded(publishedTo(m, r)) {
			out = append(out, r.Plane)
		}
	}
	slices.Sort(out)
	return out
}

// raftBehind reports whether a Raft client has to be restarted: it presents another
// authority's leaf, does not trust what it has to trust, or holds in memory what
// is distrusted. That it trusts more than it should is harmless otherwise.
func (v *view) raftBehind(m *Member, r *Role, strategy Strategy) bool {
	loaded, wanted := r.Evidence.Loaded, publishedTo(m, r)
	if loaded.Identity.Signer != wanted.Identity.Signer {
		return true
	}
	trusts := v.accepts(loaded.Trust, Identity{Signer: v.target.Key})
	if !trusts && (strategy.Kind == Classic || wanted.Identity.Signer == v.target.Key) {
		return v.target.Stored != Absent
	}
	return slices.ContainsFunc(v.Anchors, func(a Anchor) bool {
		return a.Compromised && slices.Contains(loaded.Trust, a.ID) && !slices.Contains(wanted.Trust, a.ID)
	})
}

// loaded reports whether the role runs on exactly these stores, and would after a
// restart, as far as it takes part.
func (r *Role) loaded(want Stores) bool {
	if !r.same(r.Evidence.Loaded, want) {
		return false
	}
	return !slices.ContainsFunc(r.Evidence.Persisted, func(s Stores) bool { return !r.same(s, want) })
}

func (r *Role) same(s, want Stores) bool {
	if r.Verifies && !slices.Equal(s.Trust, want.Trust) {
		return false
	}
	return !r.Presents || s.Identity.Signer == want.Identity.Signer && slices.Equal(s.Identity.Cross, want.Identity.Cross)
}

// sortedBlockers is whom each anchor waits for: what the first shut guard on its
// way waits for, since the guards behind it can only wait for the same.
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
