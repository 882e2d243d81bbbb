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
func (c *decided) loadReasons(node model.Node, published publication.Publication) []rollout.Reason {
	reported := c.reports[node.Pod]
	if !reported.known || reported.report.Revision == 0 {
		return nil
	}
	var reasons []rollout.Reason
	if published.Loading == publication.LoadByRestart || c.refused(reported.report, published) {
		reasons = rollout.LoadReasons(published, c.listening(node), reported.report)
	}
	if c.refused(reported.report, published) {
		for i := range reasons {
			reasons[i].Note += "; the reload failed: " + reported.report.Reload.Failure
		}
	}
	return append(reasons, c.trustReasons(node, c.isDue)...)
}

// trustReasons are the restarts that trust asks for and that are due.
func (c *decided) trustReasons(node model.Node, due func(trust.Load) bool) []rollout.Reason {
	var reasons []rollout.Reason
	for _, load := range c.clusterCA.Plan.Loads {
		if load.Member == trust.MemberID(node.Pod) && load.How == trust.ByRestart && due(load) {
			reasons = append(reasons, rollout.Reason{Code: rollout.TrustRemoved, Note: load.Reason})
		}
	}
	return reasons
}

// ends reports whether what a process holds is about to end, so that its restart
// cannot wait for anything.
func (c *desired) ends(load trust.Load) bool {
	return !load.Due.IsZero() && (!c.now.Before(load.Due) || c.isDue(load))
}

// reloadPatience is how long a node may try to reload what is published while its server
// does not reject it. A server under load answers late, and without a leader the quorum
// changes no setting.
const reloadPatience = 2 * time.Minute

// refused reports whether the node has tried in vain to reload what is published:
// its server does not accept it, or it has been trying for too long. One that waits until
// a certificate is valid presents something better than it would after a start.
func (o *observation) refused(report publication.Report, published publication.Publication) bool {
	failed := report.Reload.Failure != "" && report.Reload.Revision == published.Revision
	return failed && !report.Reload.Early && (report.Reload.Refused || o.now.Sub(published.PublishedAt) > reloadPatience)
}

// isDue reports whether a restart that trust asks for is to be done now. A restart that no
// rotation waits for is left to the next one that happens anyway. At the latest it is done
// in the last maintenance window before its deadline.
func (c *desired) isDue(load trust.Load) bool {
	if !load.MayBeDeferred {
		return true
	}
	return !load.Due.IsZero() && c.windows.IsLastBefore(load.Due)
}

// loadsAwaited reports whether a node is on its way to load something without a
// restart, or to show that it has: its agent has to be asked again.
func (c *decided) loadsAwaited() bool {
	inVain := blockedBy(c)
	for pod := range c.peers() {
		if reported := c.reports[pod]; reported.known && !c.settled(pod, reported.report) && !slices.Contains(inVain, memberIn(c.polled, pod)) {
			return true
		}
	}
	return slices.ContainsFunc(kinds(), func(kind authorities.Kind) bool {
		plan := c.domain(kind).Plan
		return len(blockedIn(c.domain(kind))) == 0 &&
			(slices.ContainsFunc(plan.Loads, func(l trust.Load) bool { return !l.MayBeDeferred }) || slices.ContainsFunc(plan.Blockers, passesSoon))
	})
}

// memberIn is the member whose process a pod runs.
func memberIn(c *polled, pod string) trust.MemberID {
	if at, accompanies := c.companionOf(pod); accompanies {
		return trust.MemberID(at.Member())
	}
	return trust.MemberID(pod)
}

// blockedBy are the members for which a rotation waits in vain.
func blockedBy(c *decided) []trust.MemberID {
	return slices.Concat(blockedIn(&c.clusterCA), blockedIn(&c.clientsCA))
}

// blockedIn are those of one domain; none before trust was decided.
func blockedIn(d *domain) []trust.MemberID {
	if d.Plan.States == nil {
		return nil
	}
	return authorities.Words().BlockedBy(d.Snapshot, d.Plan)
}

// passesSoon reports whether a blocker ends by itself and without an event, so that the
// operator has to poll agents. Restarts and retirement take weeks, and their times are
// known.
func passesSoon(b trust.Blocker) bool {
	return !b.UntilStart && !slices.Contains([]trust.GuardName{
		trust.GuardRetired, trust.GuardApplications, trust.GuardCrossUnneeded, trust.GuardRunning,
	}, b.Guard)
}

func (c *decided) trustBlockers() []trust.Blocker {
	return slices.Concat(c.clusterCA.Plan.Blockers, c.clientsCA.Plan.Blockers)
}

// wakeForTrust asks for a reconcile whenever trust moves on by time alone, and when a person
// should be told that it does not.
func (c *decided) wakeForTrust() {
	for _, load := range c.loads() {
		c.wake(load.Due)
		if load.MayBeDeferred {
			c.wake(c.window.Next)
		}
	}
	for _, blocker := range c.trustBlockers() {
		if !blocker.Since.IsZero() {
			c.wake(blocker.Since.Add(rotation.Patience))
		}
	}
	for _, kind := range kinds() {
		d := c.domain(kind)
		c.wake(d.Snapshot.Application.Since.Add(d.Snapshot.Policy.Lead))
		for _, anchor := range d.Snapshot.Anchors {
			c.wake(anchor.NotAfter)
			for _, cross := range anchor.Cross {
				c.wake(cross.NotAfter.Add(-authority.Day))
			}
		}
	}
}

func (c *decided) loads() []trust.Load {
	return slices.Concat(c.clusterCA.Plan.Loads, c.clientsCA.Plan.Loads)
}

// loadingOf tells a node how to load what is published. A process that keeps the trust that it was started with, and does not
// verify the leaf that its node is given, is started with both at once: it connects to its own node, too.
func loadingOf(c *decided, node model.Node, given leaf) publication.Loading {
	d := &c.clusterCA
	i := slices.IndexFunc(d.Snapshot.Members, func(m trust.Member) bool { return m.ID == trust.MemberID(node.Pod) })
	verifying := slices.DeleteFunc(slices.Clone(d.Known), func(ca *x509.Certificate) bool { return !verifiesChain(ca, given.Chain, c.now) })
	if c.clusterCA.issuance() != trust.Offered || i < 0 || len(verifying) == 0 {
		return c.loading()
	}
	trusted := make([]trust.AnchorID, 0, len(verifying))
	for _, ca := range verifying {
		for _, same := range d.ofKeys(evidence.KeyID(ca)) {
			trusted = append(trusted, evidence.AnchorID(same))
		}
	}
	member := d.Snapshot.Members[i]
	byRestart := c.published(node.Pod).Loading == publication.LoadByRestart || member.Published.Identity.Signer == ""
	if slices.ContainsFunc(member.Roles, func(role trust.Role) bool { return mustStart(role, trusted, byRestart) }) {
		return publication.LoadByRestart
	}
	return c.loading()
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
