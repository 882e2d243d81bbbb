package controller

import (
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// figures are what a reconcile has seen. One that failed before the operator had a certificate has none of certificates and trust.
func (c *applied) figures(acted outcome) metrics.Figures {
	f := metrics.Figures{Pending: len(acted.pending), Silent: len(c.silent), Blocked: map[string]int{}, Warnings: map[string]int{}}
	for _, blocker := range acted.blockers {
		f.Blocked[string(blocker.Gate)]++
	}
	for _, warning := range c.warnings() {
		f.Warnings[warning.reason]++
	}
	if c.operator.leaf != nil {
		f.Trust = &metrics.Trust{
			Certificates: c.certificateFigures(), Anchors: c.anchorFigures(), Rotations: c.rotationFigures(), RestartDue: c.restartsDue(),
		}
	}
	return f
}

func (c *applied) certificateFigures() []metrics.Certificate {
	list := c.presentAuthorities()
	if c.operator.leaf != nil {
		list = append(list, metrics.Certificate{Kind: metrics.OfOperator, Name: c.kafka.Name + operatorSecretSuffix, NotAfter: c.operator.leaf.NotAfter})
	}
	for _, node := range c.cluster.Nodes {
		if certificates, issued := c.nodes[node.Pod]; issued {
			list = append(list, metrics.Certificate{Kind: metrics.OfNode, Name: node.Pod, NotAfter: certificates.leaf.NotAfter})
		}
	}
	for listener, custom := range c.custom {
		list = append(list, metrics.Certificate{Kind: metrics.OfListener, Name: string(listener), NotAfter: custom.Chain[0].NotAfter})
	}
	return list
}

func (c *decided) anchorFigures() []metrics.Anchor {
	var list []metrics.Anchor
	for _, kind := range kinds() {
		d := c.domain(kind)
		for _, anchor := range d.Snapshot.Anchors {
			if state := d.Plan.States[anchor.ID]; state != trust.Absent {
				list = append(list, metrics.Anchor{Authority: string(kind), Fingerprint: string(anchor.ID), State: string(state)})
			}
		}
	}
	return list
}

func (c *decided) rotationFigures() []metrics.Rotation {
	figures := make([]metrics.Rotation, 0, len(kinds()))
	for _, kind := range kinds() {
		d := c.domain(kind)
		r := metrics.Rotation{
			Authority: string(kind), Phase: authorities.Words().PhaseOf(d.Snapshot, d.Plan), Start: d.begun(),
			Deadline: d.Plan.Deadline, Blocked: metrics.BlockedMembers(d.Plan.Blockers),
			Excluded: d.Plan.Excluded, Behind: c.behind(kind),
		}
		figures = append(figures, r)
	}
	return figures
}

// begun is when the authority to come was made, while another is still there.
func (d *domain) begun() time.Time {
	if target := d.Target(); target != nil && len(d.Trusted()) > 1+len(d.Kept) {
		return target.NotBefore.Add(pki.Backdate)
	}
	return time.Time{}
}

// behind counts, for each node, the listeners of the domain that are not known to
// run on what is published.
func (c *polled) behind(kind authorities.Kind) map[string]int {
	counts := map[string]int{}
	for _, node := range c.cluster.Nodes {
		if _, exists := c.pods[node.Pod]; !exists {
			continue
		}
		stores := c.listening(node)
		kept := stores[:0:0]
		for _, store := range stores {
			if store.Trust == domainOf(kind) {
				kept = append(kept, store)
			}
		}
		counts[node.Pod] = len(kept)
		if reported := c.reports[node.Pod]; reported.known {
			counts[node.Pod] = rollout.Behind(c.published(node.Pod), kept, reported.report)
		}
	}
	return counts
}

// restartsDue says by when nodes must be restarted because of what their Raft
// clients hold.
func (c *decided) restartsDue() map[string]time.Time {
	due := map[string]time.Time{}
	for _, load := range c.clusterCA.Plan.Loads {
		if !load.Due.IsZero() {
			due[string(load.Member)] = load.Due
		}
	}
	return due
}
