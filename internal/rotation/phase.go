package rotation

import (
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Phase is where a domain stands, as the reason of its condition says it. Phases
// are not stored: each is read off the objects and the evidence, and a domain may
// go back to an earlier one, for example when a node joins.
type Phase string

// The phases, in the order in which a rotation meets them, but for the one that is handed
// in: see Words. docs/conditions.md tells people about each.
const (
	// Trusted: one authority is trusted and used, and nothing else. Nothing is left
	// to do.
	Trusted Phase = "Trusted"
	// Establishing: there is only one authority, and some peers have still to prove that they trust and
	// present it, as in a new cluster.
	Establishing Phase = "Establishing"
	// Announcing: the new anchor enters the trusted-certs Secret and the
	// application bundle.
	Announcing Phase = "Announcing"
	// WaitingForTrust: peers have still to prove that they verify the new authority.
	WaitingForTrust Phase = "WaitingForTrust"
	// WaitingForApplications: applications get time to read the new anchor.
	WaitingForApplications Phase = "WaitingForApplications"
	// SwitchingLeaves: leaves of the new authority are being handed out.
	SwitchingLeaves Phase = "SwitchingLeaves"
	// WaitingForLeaves: peers have still to prove that they present them.
	WaitingForLeaves Phase = "WaitingForLeaves"
	// TurningOperator: the operator takes a certificate of the new authority for itself.
	TurningOperator Phase = "TurningOperator"
	// WithdrawingOld: peers are told to stop trusting the old anchor.
	WithdrawingOld Phase = "WithdrawingOld"
	// WaitingForDistrust: peers have still to prove that they do not trust it.
	WaitingForDistrust Phase = "WaitingForDistrust"
	// WaitingForUsers: users still hold certificates of the old clients CA.
	WaitingForUsers Phase = "WaitingForUsers"
	// WaitingForExpiry: no peer is known to use the old anchor, and the policy keeps it until it expires.
	WaitingForExpiry Phase = "WaitingForExpiry"
	// WaitingForOwner: no peer trusts or presents the old anchor any more, and its owner still has it in the
	// Secret that applications read.
	WaitingForOwner Phase = "WaitingForOwner"
	// Retiring: the old anchor leaves the bundles.
	Retiring Phase = "Retiring"
	// Loading: members load something that changes no trust: a leaf, its chain.
	Loading Phase = "Loading"
	// Paused: the resource is paused; certificates go on expiring.
	Paused Phase = "Paused"
	// Blocked: nothing moves, and a guard has long been shut that does not open by itself: a peer is silent,
	// or does not change. A person has to look.
	Blocked Phase = "Blocked"
	// AuthorityMissing: there is no CA certificate to issue by, or its Secrets cannot be
	// used. A person has to put them right.
	AuthorityMissing Phase = "AuthorityMissing"
)

// Patience is how long a guard that does not open by itself may be shut before a person
// should look.
const Patience = 5 * time.Minute

// PhaseOf says where a domain stands. The plan is what trust.Decide says of the
// snapshot.
func (w *Words) PhaseOf(s trust.Snapshot, plan trust.Plan) Phase {
	v := newView(w, s, plan)
	switch {
	case v.target == nil:
		return AuthorityMissing
	case s.Policy.Paused:
		return Paused
	case plan.Done && len(v.steps) == 0:
		return Trusted
	case v.ownersTurn():
		return WaitingForOwner
	case v.stuck():
		return Blocked
	case len(v.others()) == 0:
		return v.alone()
	}
	for _, ask := range []func() Phase{v.beforeLeaves, v.leaves, v.withdrawal} {
		if phase := ask(); phase != "" {
			return phase
		}
	}
	return Retiring
}

// view is a snapshot with its plan and the questions that phases and messages ask. Its members are those
// that the rotation waits for.
type view struct {
	trust.Snapshot

	words  *Words
	plan   trust.Plan
	steps  []trust.Step
	target *trust.Anchor
	// subject is the authority of a message.
	subject Subject
}

func newView(words *Words, s trust.Snapshot, plan trust.Plan) *view {
	v := &view{Snapshot: s, words: words, plan: plan}
	v.Members = slices.DeleteFunc(slices.Clone(s.Members), func(m trust.Member) bool {
		return slices.ContainsFunc(plan.Excluded, func(a trust.Exclusion) bool { return a.Member == m.ID })
	})
	for i := range s.Anchors {
		if s.Anchors[i].ID == s.Issuing {
			v.target = &s.Anchors[i]
		}
	}
	if v.target != nil && !s.Policy.Paused {
		v.steps = slices.DeleteFunc(trust.Steps(s, plan), func(step trust.Step) bool { return step.MayBeDeferred })
	}
	return v
}

// others are the anchors that are to go and are still held, sorted as given.
func (v *view) others() []*trust.Anchor {
	var out []*trust.Anchor
	for i := range v.Anchors {
		a := &v.Anchors[i]
		if a != v.target && !a.Beside(v.Issuing) && (a.Stored != trust.Absent || slices.Contains(v.Application.Anchors, a.ID)) {
			out = append(out, a)
		}
	}
	return out
}

func (v *view) waits(guards ...trust.GuardName) bool {
	return slices.ContainsFunc(v.plan.Blockers, func(b trust.Blocker) bool { return slices.Contains(guards, b.Guard) })
}

// ownersTurn reports whether nothing is left of the old anchors but what others write
// into the application bundle.
func (v *view) ownersTurn() bool {
	others := v.others()
	if len(others) == 0 || len(v.steps) > 0 || v.loading() || v.target.Stored == trust.Absent || v.target.Stored == trust.Untrusted {
		return false
	}
	return !slices.ContainsFunc(others, func(a *trust.Anchor) bool {
		return a.Stored != trust.Absent || !slices.Contains(v.plan.Application, a.ID)
	})
}

// stuck reports whether nothing has moved for long because of a member that only a person can help.
func (v *view) stuck() bool {
	moves := slices.ContainsFunc(v.steps, func(step trust.Step) bool { return !v.hangs(step) && !v.unwritable(step) })
	return !moves && len(v.overdue()) > 0
}

// hangs reports whether a step is nothing but reloads of what has for long not been
// mounted. An agent has nothing to load then.
func (v *view) hangs(step trust.Step) bool {
	if step.How != trust.ByReload {
		return false
	}
	return !slices.ContainsFunc(v.Members, func(m trust.Member) bool {
		return slices.Contains(step.Members, m.ID) && !slices.ContainsFunc(m.Roles, func(r trust.Role) bool {
			return len(r.Evidence.Mounted) > 0 && v.long(r.Evidence.Since)
		})
	})
}

// unwritable reports whether a step only concerns members whose Secret is lost and cannot
// be written again.
func (v *view) unwritable(step trust.Step) bool {
	return len(step.Members) > 0 && !slices.ContainsFunc(step.Members, func(id trust.MemberID) bool {
		lost := func(a trust.Exclusion) bool { return a.Member == id && a.Reason == trust.SecretLost }
		return !slices.ContainsFunc(v.plan.NeedAttention, lost)
	})
}

// long reports whether it has been so for at least Patience. An unknown time is not long.
func (v *view) long(since time.Time) bool {
	return !since.IsZero() && !v.Now.Before(since.Add(Patience))
}

// overdue are the guards that have been shut for long and that neither time nor a restart
// which comes anyway will open.
func (v *view) overdue() []trust.Blocker {
	return slices.DeleteFunc(slices.Clone(v.plan.Blockers), func(b trust.Blocker) bool {
		return !v.long(b.Since) || v.opens(b)
	})
}

// opens reports whether a guard opens by itself. Applications and the retirement policy wait for a time,
// and users for new certificates. A process that has to be started for it waits for its next restart, if
// one is due.
func (v *view) opens(b trust.Blocker) bool {
	m := v.waitedFor(b)
	switch {
	case m == nil:
		return true
	case v.needsAttention(m):
		return false
	default:
		return b.UntilStart && slices.ContainsFunc(v.remaining(), func(l trust.Load) bool { return l.Member == m.ID })
	}
}

// BlockedBy are the members that a Blocked domain waits for; none in another phase.
func (w *Words) BlockedBy(s trust.Snapshot, plan trust.Plan) []trust.MemberID {
	if w.PhaseOf(s, plan) != Blocked {
		return nil
	}
	v := newView(w, s, plan)
	var ids []trust.MemberID
	for _, b := range v.overdue() {
		ids = append(ids, v.waitedFor(b).ID)
	}
	return ids
}

// waitedFor is the node or companion that a guard waits for; nil when it waits for
// something else.
func (v *view) waitedFor(b trust.Blocker) *trust.Member {
	who, _, _ := strings.Cut(b.Who, " ")
	for i := range v.Members {
		m := &v.Members[i]
		if (m.Kind == trust.Node || m.Kind == trust.Companion) && string(m.ID) == who {
			return m
		}
	}
	return nil
}

func (v *view) needsAttention(m *trust.Member) bool {
	return slices.ContainsFunc(v.plan.NeedAttention, func(a trust.Exclusion) bool { return a.Member == m.ID })
}

// alone is the phase of a domain with one authority. The rotation does not wait for members that keep an
// earlier certificate of it until they are restarted.
func (v *view) alone() Phase {
	if v.target.Stored == trust.InUseAll && len(v.steps) == 0 && !v.loading() && len(v.remaining()) > 0 {
		return v.words.RestartsPending
	}
	if v.waits(trust.GuardCrossUnneeded) && !v.loading() {
		return WaitingForApplications
	}
	known := slices.ContainsFunc(v.Members, func(m trust.Member) bool { return m.Kind != trust.Operator && presents(&m) })
	if v.target.Stored == trust.InUseAll || v.target.Stored == trust.TrustedUnused && !known {
		return Loading
	}
	return Establishing
}

// beforeLeaves is the phase until the new authority may sign.
func (v *view) beforeLeaves() Phase {
	switch {
	case v.target.Stored == trust.Absent || !slices.Contains(v.Application.Anchors, v.Issuing):
		return Announcing
	case v.target.Stored != trust.Untrusted && v.plan.Signer == v.Issuing:
		return ""
	case v.waits(trust.GuardApplications):
		return WaitingForApplications
	default:
		return WaitingForTrust
	}
}

// leaves is the phase until every member presents the new authority.
func (v *view) leaves() Phase {
	servers := []trust.MemberKind{trust.Node, trust.Companion}
	old := func(m *trust.Member) bool { return m.Published.Identity.Signer != v.target.Key }
	switch {
	case v.anyPresenter(servers, old):
		return SwitchingLeaves
	case v.anyPresenter(servers, func(m *trust.Member) bool { return !v.shows(m) }):
		return WaitingForLeaves
	case v.anyPresenter([]trust.MemberKind{trust.Operator}, old):
		return TurningOperator
	case v.anyPresenter([]trust.MemberKind{trust.Holder}, old):
		return WaitingForUsers
	default:
		return ""
	}
}

// anyPresenter reports whether it holds of a member of these kinds that presents
// certificates of the domain.
func (v *view) anyPresenter(kinds []trust.MemberKind, holds func(*trust.Member) bool) bool {
	return slices.ContainsFunc(v.Members, func(m trust.Member) bool {
		return slices.Contains(kinds, m.Kind) && presents(&m) && holds(&m)
	})
}

func presents(m *trust.Member) bool {
	return slices.ContainsFunc(m.Roles, func(r trust.Role) bool { return r.Presents })
}

// shows reports whether whatever the member has proven to present, but for what it loads
// only when it starts, is the new authority's. A member without a process will.
func (v *view) shows(m *trust.Member) bool {
	return !slices.ContainsFunc(m.Roles, func(r trust.Role) bool {
		old := r.Evidence.Process == trust.ProcessRunning && r.Evidence.Loaded.Identity.Signer != v.target.Key
		return r.Presents && r.Plane.Identity == trust.Reloading && (r.Evidence.Process == trust.ProcessUnknown || old)
	})
}

// withdrawal is the phase while old anchors are being withdrawn.
func (v *view) withdrawal() Phase {
	main, late := v.published(mainOf), v.published(lateOf)
	switch {
	case main:
		return v.fromMain()
	case v.loading():
		return WaitingForDistrust
	case late && v.waits(trust.GuardLateUnused):
		return v.words.RestartsPending
	case late:
		return WithdrawingOld
	case v.waits(trust.GuardDistrusted):
		return WaitingForDistrust
	case v.waits(trust.GuardRetired) && len(v.steps) == 0:
		return WaitingForExpiry // no node trusts it, and the policy keeps it all the same
	default:
		return Retiring
	}
}

// fromMain is the phase while an old anchor is still in the main bundle of a member. That
// it stays until its end does not mean that nothing is left to be done.
func (v *view) fromMain() Phase {
	switch {
	case !v.waits(trust.GuardRetired, trust.GuardListeners):
		return WithdrawingOld
	case v.loading() || v.waits(trust.GuardListeners):
		return WaitingForTrust
	default:
		return WaitingForExpiry
	}
}

func mainOf(p trust.Publication) []trust.AnchorID { return p.Main }
func lateOf(p trust.Publication) []trust.AnchorID { return p.Late }

// published reports whether a member is told to trust an anchor that is to go.
func (v *view) published(bundle func(trust.Publication) []trust.AnchorID) bool {
	return slices.ContainsFunc(v.others(), func(a *trust.Anchor) bool { return a.Stored != trust.Absent && v.publishes(a, bundle) })
}

// publishes reports whether a bundle that is published to a member holds an anchor.
func (v *view) publishes(a *trust.Anchor, bundle func(trust.Publication) []trust.AnchorID) bool {
	return slices.ContainsFunc(v.Members, func(m trust.Member) bool { return slices.Contains(bundle(m.Published), a.ID) })
}

// loading reports whether a member has to load what is published, now.
func (v *view) loading() bool {
	return slices.ContainsFunc(v.plan.Loads, func(l trust.Load) bool { return !l.MayBeDeferred })
}
