package controller

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// loadReasons says what a node is to be restarted for because it has not loaded
// what is published to it. Where reload works nothing is: the agent sees to it.
func (p *pass) loadReasons(node model.Node, published publication.Publication) []rollout.Reason {
	said := p.heard[node.Pod]
	if !said.known || said.report.Revision == 0 {
		return nil
	}
	var reasons []rollout.Reason
	if published.Loading == publication.LoadByRestart || p.refused(said.report, published) {
		reasons = rollout.LoadReasons(published, p.listening(node), said.report)
	}
	if p.refused(said.report, published) {
		for i := range reasons {
			reasons[i].Note += "; the reload failed: " + said.report.Reload.Failure
		}
	}
	return append(reasons, p.trustReasons(node, p.isDue)...)
}

// trustReasons are the restarts that trust asks for and that are due.
func (p *pass) trustReasons(node model.Node, due func(trust.Load) bool) []rollout.Reason {
	var reasons []rollout.Reason
	for _, load := range p.clusterCA.Plan.Loads {
		if load.Member == trust.MemberID(node.Pod) && load.How == trust.ByRestart && due(load) {
			reasons = append(reasons, rollout.Reason{Code: rollout.TrustRemoved, Note: load.Reason})
		}
	}
	return reasons
}

// ends reports whether what a process holds is about to end, so that its restart
// cannot wait for anything.
func (p *pass) ends(load trust.Load) bool {
	return !load.Due.IsZero() && (!p.now.Before(load.Due) || p.isDue(load))
}

// reloadPatience is how long a node may try to reload what is published while
// nobody refuses it: a server under load answers late, and while nobody leads the
// quorum no setting is changed.
const reloadPatience = 2 * time.Minute

// refused reports whether the node has tried in vain to reload what is published:
// its server does not accept it, or it has been trying for too long. One that waits until
// a certificate is valid presents something better than it would after a start.
func (p *pass) refused(report publication.Report, published publication.Publication) bool {
	failed := report.Reload.Failure != "" && report.Reload.Revision == published.Revision
	return failed && !report.Reload.Early && (report.Reload.Refused || p.now.Sub(published.PublishedAt) > reloadPatience)
}

// isDue reports whether a restart that trust asks for is to be done now. One that
// nobody waits for is done by the next that comes anyway, or is done in the last
// maintenance window before it must be.
func (p *pass) isDue(load trust.Load) bool {
	if !load.Remainder {
		return true
	}
	return !load.Due.IsZero() && p.windows.IsLastBefore(load.Due)
}

// loadsAwaited reports whether a node is on its way to load something without a
// restart, or to show that it has: its agent has to be asked again.
func (p *pass) loadsAwaited() bool {
	inVain := blockedBy(p)
	for pod := range p.peers() {
		if said := p.heard[pod]; said.known && !p.settled(pod, said.report) && !slices.Contains(inVain, memberIn(p, pod)) {
			return true
		}
	}
	return slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		plan := p.domain(kind).Plan
		return len(blockedIn(p.domain(kind))) == 0 &&
			(slices.ContainsFunc(plan.Loads, func(l trust.Load) bool { return !l.Remainder }) || slices.ContainsFunc(plan.Blockers, passesSoon))
	})
}

// memberIn is the member whose process a pod runs.
func memberIn(p *pass, pod string) trust.MemberID {
	if at, accompanies := p.companionOf(pod); accompanies {
		return trust.MemberID(at.Member())
	}
	return trust.MemberID(pod)
}

// blockedBy are the members for which a rotation waits in vain.
func blockedBy(p *pass) []trust.MemberID {
	return slices.Concat(blockedIn(&p.clusterCA), blockedIn(&p.clientsCA))
}

// blockedIn are those of one domain; none before trust was decided.
func blockedIn(d *domain) []trust.MemberID {
	if d.Plan.States == nil {
		return nil
	}
	return authorities.Words().BlockedBy(d.Snapshot, d.Plan)
}

// passesSoon reports whether what is waited for comes without anybody's doing and
// without an event: agents have to be asked. Restarts and retirement take weeks, and
// their times are known.
func passesSoon(b trust.Blocker) bool {
	return !b.UntilStart && !slices.Contains([]trust.GuardName{
		trust.GuardRetired, trust.GuardApplications, trust.GuardCrossUnneeded, trust.GuardRunning,
	}, b.Guard)
}

func (p *pass) trustBlockers() []trust.Blocker {
	return slices.Concat(p.clusterCA.Plan.Blockers, p.clientsCA.Plan.Blockers)
}

// wakeForTrust asks for a pass whenever trust moves on by time alone, and when a person
// should be told that it does not.
func (p *pass) wakeForTrust() {
	for _, load := range p.loads() {
		p.wake(load.Due)
		if load.Remainder {
			p.wake(p.window.Next)
		}
	}
	for _, blocker := range p.trustBlockers() {
		if !blocker.Since.IsZero() {
			p.wake(blocker.Since.Add(rotation.Patience))
		}
	}
	for _, kind := range kinds() {
		d := p.domain(kind)
		p.wake(d.Snapshot.Application.Since.Add(d.Snapshot.Policy.Lead))
		for _, anchor := range d.Snapshot.Anchors {
			p.wake(anchor.NotAfter)
			for _, cross := range anchor.Cross {
				p.wake(cross.NotAfter.Add(-authority.Day))
			}
		}
	}
}

func (p *pass) loads() []trust.Load {
	return slices.Concat(p.clusterCA.Plan.Loads, p.clientsCA.Plan.Loads)
}

// loadingOf tells a node how to load what is published. A process that keeps the trust that it was started with, and does not
// verify the leaf that its node is given, is started with both at once: it connects to its own node, too.
func loadingOf(p *pass, node model.Node, given leaf) publication.Loading {
	d := &p.clusterCA
	i := slices.IndexFunc(d.Snapshot.Members, func(m trust.Member) bool { return m.ID == trust.MemberID(node.Pod) })
	verifying := slices.DeleteFunc(slices.Clone(d.Known), func(ca *x509.Certificate) bool { return !verifiesChain(ca, given.Chain, p.now) })
	if issuanceOf(p) != trust.Offered || i < 0 || len(verifying) == 0 {
		return p.loading()
	}
	trusted := make([]trust.AnchorID, 0, len(verifying))
	for _, ca := range verifying {
		for _, same := range d.ofKeys(evidence.KeyID(ca)) {
			trusted = append(trusted, evidence.AnchorID(same))
		}
	}
	member := d.Snapshot.Members[i]
	byRestart := p.published(node.Pod).Loading == publication.LoadByRestart || member.Published.Identity.Signer == ""
	if slices.ContainsFunc(member.Roles, func(role trust.Role) bool { return mustStart(role, trusted, byRestart) }) {
		return publication.LoadByRestart
	}
	return p.loading()
}

// mustStart reports whether a role trusts none of some anchors before it is started. One that says nothing does as before.
func mustStart(role trust.Role, anchors []trust.AnchorID, before bool) bool {
	switch {
	case role.Plane.Trust != trust.AtStart:
		return false
	case role.Evidence.Process == trust.ProcessRunning:
		return !slices.ContainsFunc(role.Evidence.Loaded.Trust, func(id trust.AnchorID) bool { return slices.Contains(anchors, id) })
	default:
		return before && role.Evidence.Process == trust.ProcessUnknown
	}
}
