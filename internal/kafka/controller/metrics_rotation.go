package controller

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// rotationMetrics tell where the trust in each authority stands.
type rotationMetrics struct {
	phase, start, deadline, blocked, apart, notStored, restartDue *prometheus.Desc
}

// rotationFigure is what there is to tell of one authority.
type rotationFigure struct {
	authority string
	phase     rotation.Phase
	// start and deadline are zero when there is none.
	start, deadline time.Time
	// blocked counts, by guard, the members that the rotation waits for.
	blocked map[trust.GuardName]int
	// apart are the members that the rotation does not wait for.
	apart []trust.Apart
	// behind counts, by node, the listeners that run on something else than what is
	// stored for them, or do not say.
	behind map[string]int
}

func newRotationMetrics(desc func(name, help string, labels ...string) *prometheus.Desc) rotationMetrics {
	return rotationMetrics{
		phase: desc("keyturn_rotation_phase",
			"1 for where the trust in an authority stands.", "authority", "phase"),
		start: desc("keyturn_rotation_start_timestamp_seconds",
			"When the rotation in progress began, in seconds since 1970.", "authority"),
		deadline: desc("keyturn_rotation_deadline_timestamp_seconds",
			"When the first CA certificate that is to go expires, in seconds since 1970.", "authority"),
		blocked: desc("keyturn_rotation_blocked",
			"Members that a guard of the rotation waits for.", "authority", "guard"),
		apart: desc("keyturn_rotation_apart",
			"1 for a member that the rotation does not wait for, with the reason.", "authority", "name", "reason"),
		notStored: desc("keyturn_served_not_stored",
			"Listeners of a node that run on something else than what is stored for them, or do not say.", "authority", "name"),
		restartDue: desc("keyturn_restart_due_timestamp_seconds",
			"When a node has to be restarted at the latest, in seconds since 1970.", "name"),
	}
}

func (m rotationMetrics) describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.phase, m.start, m.deadline, m.blocked, m.apart, m.notStored, m.restartDue} {
		descs <- desc
	}
}

func (m rotationMetrics) collect(f figures, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	for _, r := range f.rotations {
		gauge(m.phase, 1, r.authority, string(r.phase))
		if !r.start.IsZero() {
			gauge(m.start, float64(r.start.Unix()), r.authority)
		}
		if !r.deadline.IsZero() {
			gauge(m.deadline, float64(r.deadline.Unix()), r.authority)
		}
		for guard, count := range r.blocked {
			gauge(m.blocked, float64(count), r.authority, string(guard))
		}
		for _, apart := range r.apart {
			gauge(m.apart, 1, r.authority, string(apart.Member), string(apart.Reason))
		}
		for node, count := range r.behind {
			gauge(m.notStored, float64(count), r.authority, node)
		}
	}
	for node, due := range f.restartDue {
		gauge(m.restartDue, float64(due.Unix()), node)
	}
}

func (c *decided) rotationFigures() []rotationFigure {
	figures := make([]rotationFigure, 0, len(kinds()))
	for _, kind := range kinds() {
		d := c.domain(kind)
		r := rotationFigure{
			authority: string(kind), phase: authorities.Words().PhaseOf(d.Snapshot, d.Plan), start: d.begun(),
			deadline: d.Plan.Deadline, blocked: blockedMembers(d.Plan.Blockers),
			apart: d.Plan.Apart, behind: c.behind(kind),
		}
		figures = append(figures, r)
	}
	return figures
}

// blockedMembers counts by guard; a member of which several roles are waited for counts once.
func blockedMembers(blockers []trust.Blocker) map[trust.GuardName]int {
	type wait struct {
		guard  trust.GuardName
		member string
	}
	counts, counted := map[trust.GuardName]int{}, map[wait]bool{}
	for _, b := range blockers {
		member, _, _ := strings.Cut(b.Who, " ")
		if who := (wait{b.Guard, member}); !counted[who] {
			counted[who] = true
			counts[b.Guard]++
		}
	}
	return counts
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
		if said := c.heard[node.Pod]; said.known {
			counts[node.Pod] = rollout.Behind(c.published(node.Pod), kept, said.report)
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
