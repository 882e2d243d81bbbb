package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// rotationMetrics tell where the trust in each authority stands.
type rotationMetrics struct {
	phase, start, deadline, blocked, excluded, outOfSync, restartDue *prometheus.Desc
}

// Rotation is what there is to tell of one CA.
type Rotation struct {
	Authority string
	Phase     rotation.Phase
	// Start and Deadline are zero when there is none.
	Start, Deadline time.Time
	// Blocked counts, by guard, the members that the rotation waits for.
	Blocked map[trust.GuardName]int
	// Excluded are the members that the rotation does not wait for.
	Excluded []trust.Exclusion
	// Behind counts, by node, the listeners that run on something else than what is
	// stored for them, or do not say.
	Behind map[string]int
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
		excluded: desc("keyturn_rotation_excluded_members",
			"1 for a member that the rotation does not wait for, with the reason.", "authority", "name", "reason"),
		outOfSync: desc("keyturn_listeners_out_of_sync",
			"Listeners of a node that run on something else than what is stored for them, or do not say.", "authority", "name"),
		restartDue: desc("keyturn_restart_due_timestamp_seconds",
			"When a node has to be restarted at the latest, in seconds since 1970.", "name"),
	}
}

func (m rotationMetrics) describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.phase, m.start, m.deadline, m.blocked, m.excluded, m.outOfSync, m.restartDue} {
		descs <- desc
	}
}

func (m rotationMetrics) collect(t *Trust, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	for _, r := range t.Rotations {
		gauge(m.phase, 1, r.Authority, string(r.Phase))
		if !r.Start.IsZero() {
			gauge(m.start, float64(r.Start.Unix()), r.Authority)
		}
		if !r.Deadline.IsZero() {
			gauge(m.deadline, float64(r.Deadline.Unix()), r.Authority)
		}
		for guard, count := range r.Blocked {
			gauge(m.blocked, float64(count), r.Authority, string(guard))
		}
		for _, excluded := range r.Excluded {
			gauge(m.excluded, 1, r.Authority, string(excluded.Member), string(excluded.Reason))
		}
		for node, count := range r.Behind {
			gauge(m.outOfSync, float64(count), r.Authority, node)
		}
	}
	for node, due := range t.RestartDue {
		gauge(m.restartDue, float64(due.Unix()), node)
	}
}

// BlockedMembers counts by guard; a member of which several roles are waited for counts once.
func BlockedMembers(blockers []trust.Blocker) map[trust.GuardName]int {
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
