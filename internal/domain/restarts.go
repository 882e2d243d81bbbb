package domain

import (
	"cmp"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Restarts are the members that are to be started again now, sorted, for all domains of a cluster together. A start loads what
// each of them has published. One domain asks for it, and what that is started for is mounted; no other is about to withdraw
// something from the member, which would take a start of its own. What is loaded and ends waits for none of them.
func Restarts(domains ...*Decided) []trust.Load {
	var due []trust.Load
	for i, d := range domains {
		others := slices.Concat(domains[:i], domains[i+1:])
		for _, load := range d.Plan.Loads {
			isKnown := slices.ContainsFunc(due, func(l trust.Load) bool { return l.Member == load.Member })
			waits := !load.IsUrgent(d.Snapshot.Now) && slices.ContainsFunc(others, func(other *Decided) bool { return other.holdsBack(load.Member) })
			if isDue(load) && d.hasMounted(load.Member) && !isKnown && !waits {
				due = append(due, load)
			}
		}
	}
	slices.SortFunc(due, func(a, b trust.Load) int { return cmp.Compare(a.Member, b.Member) })
	return due
}

// isDue reports whether a load is a restart that is not left for later.
func isDue(load trust.Load) bool { return load.How == trust.ByRestart && !load.MayBeDeferred }

// holdsBack reports whether a start of a member should wait until the domain has withdrawn something from it. One that asks for
// a start itself, or takes one for each of its steps in any case, or waits for others, holds nothing back.
func (d *Decided) holdsBack(id trust.MemberID) bool {
	asks := slices.ContainsFunc(d.Plan.Loads, func(l trust.Load) bool { return l.Member == id && isDue(l) })
	return !asks && d.Plan.Strategy.Kind != trust.Classic && d.hasToWithdraw(id) && !d.isHeldUp()
}

// hasToWithdraw reports whether a member is given an anchor that is to go.
func (d *Decided) hasToWithdraw(id trust.MemberID) bool {
	member, isKnown := d.member(id)
	if !isKnown {
		return false
	}
	return slices.ContainsFunc(d.Snapshot.Anchors, func(anchor trust.Anchor) bool {
		return anchor.ID != d.Snapshot.Issuing && anchor.Stored != trust.Absent && slices.Contains(member.Published.Main, anchor.ID)
	})
}

// HeldUpAt is when the domain has waited for certificates of applications for so long that it holds no start of a member back;
// zero while it waits for none.
func (d *Decided) HeldUpAt() time.Time {
	if len(d.Former()) == 0 {
		return time.Time{}
	}
	return d.Snapshot.Application.Since.Add(rotation.Patience)
}

// isHeldUp reports whether nothing is to be done in the domain, and what it waits for has lasted for long or has no known
// beginning.
func (d *Decided) isHeldUp() bool {
	if d.Snapshot.Now.Before(d.HeldUpAt()) {
		return false
	}
	if slices.ContainsFunc(trust.Steps(d.Snapshot, d.Plan), func(s trust.Step) bool { return !s.MayBeDeferred }) {
		return false
	}
	return !slices.ContainsFunc(d.Plan.Blockers, func(b trust.Blocker) bool {
		return !b.Since.IsZero() && d.Snapshot.Now.Sub(b.Since) < rotation.Patience
	})
}

// hasMounted reports whether it is known that a start of a member would find what is published to it.
func (d *Decided) hasMounted(id trust.MemberID) bool {
	member, isKnown := d.member(id)
	return isKnown && !slices.ContainsFunc(member.Roles, func(r trust.Role) bool {
		return r.Evidence.Process == trust.ProcessUnknown || len(r.Evidence.Mounted) > 0
	})
}

func (d *Decided) member(id trust.MemberID) (trust.Member, bool) {
	at := slices.IndexFunc(d.Snapshot.Members, func(m trust.Member) bool { return m.ID == id })
	if at < 0 {
		return trust.Member{}, false
	}
	return d.Snapshot.Members[at], true
}
