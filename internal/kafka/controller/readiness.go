package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/imagepull"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
)

// readiness says whether the cluster serves and goes on serving by itself. There is one
// reason; the message tells of everything.
func (c *applied) readiness(acted outcome) wanted {
	var found []wanted
	for _, look := range []func() wanted{
		c.expired, c.blocked, func() wanted { return c.unready(acted) },
	} {
		if w := look(); w.kind != "" {
			found = append(found, w)
		}
	}
	if len(found) == 0 {
		return wanted{kind: condition.Ready}
	}
	worst := found[0]
	for _, other := range found[1:] {
		worst.message += "; " + other.message
	}
	return worst
}

// unready names the pods that are waited for, and what keeps those that are stuck.
func (c *desired) unready(acted outcome) wanted {
	waiting := c.waitingFor(acted)
	if len(waiting) == 0 {
		return wanted{}
	}
	reason := reasonPodsNotReady
	if !c.wasReady() {
		reason = reasonCreating
	}
	pulls := unpulled(c.pods, waiting)
	for i, name := range waiting {
		if stuck := podOf(c.pods[name]).StuckReason; stuck != "" {
			waiting[i] = name + " (" + stuck + ")"
		}
	}
	return notReady(reason, "waiting for pods "+excerpt.List(waiting, ", ", excerpt.Listed)+" to become ready"+pulls)
}

// unpulled says of the first pod that waits for its image what may be wrong with its pull Secrets.
func unpulled(pods map[string]*corev1.Pod, names []string) string {
	for _, name := range names {
		if pod := pods[name]; pod != nil && imagepull.Awaits(pod) {
			return "; pod " + name + ": " + imagepull.Cause(pod)
		}
	}
	return ""
}

// blocked says which rotation only a person can help on. One that waits for time, for
// a window or for a restart goes on by itself.
func (c *decided) blocked() wanted {
	var messages []string
	for _, kind := range kinds() {
		d := c.domain(kind)
		if d.Plan.States != nil && authorities.Words().PhaseOf(d.Snapshot, d.Plan) == rotation.Blocked {
			messages = append(messages, fmt.Sprintf("the rotation of the %s is blocked: %s", kind, d.message(c.kafka.Name)))
		}
	}
	if len(messages) == 0 {
		return wanted{}
	}
	return notReady(reasonRotationBlocked, strings.Join(messages, "; "))
}

// expired names the nodes that present a certificate that has ended: by what their
// servers say, and of those that say nothing by what their Secrets hold.
func (c *applied) expired() wanted {
	var names []string
	remedies := map[string]bool{}
	for _, node := range c.cluster.Nodes {
		roles := c.expiredRoles(node.Pod)
		if len(roles) == 0 {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s)", node.Pod, strings.Join(roles, ", ")))
		for _, role := range roles {
			remedies[c.remedy(node.Pod, publication.Role(role))] = true
		}
	}
	if len(names) == 0 {
		return wanted{}
	}
	return notReady(reasonCertificatesExpired, fmt.Sprintf("expired certificates are presented by %s: %s",
		excerpt.First(names, excerpt.Named, ", "), strings.Join(slices.Sorted(maps.Keys(remedies)), "; ")))
}

// storedRole is what is said of a server that says nothing itself.
const storedRole = "in its Secret"

// expiredRoles are the roles of a node that present a certificate that has ended,
// sorted. The reconcile is to be repeated when the next one ends.
func (c *applied) expiredRoles(pod string) []string {
	ends := map[string]time.Time{}
	if reported := c.reports[pod]; reported.known {
		for role, loaded := range reported.report.Roles {
			ends[string(role)] = evidence.LeafEnd(reported.report, loaded)
		}
	} else if certificates, issued := c.nodes[pod]; issued {
		ends[storedRole] = certificates.leaf.NotAfter
	}
	var roles []string
	for _, role := range slices.Sorted(maps.Keys(ends)) {
		switch end := ends[role]; {
		case end.IsZero():
		case c.now.Before(end):
			c.wake(end)
		default:
			roles = append(roles, role)
		}
	}
	return roles
}

// remedy is what has to be done about a certificate that has ended and is still
// presented.
func (c *applied) remedy(pod string, role publication.Role) string {
	if custom, found := c.custom[role]; found {
		if c.now.Before(custom.Chain[0].NotAfter) {
			return "the new certificate of listener " + string(role) + " is being loaded"
		}
		return "replace the certificate that listener " + string(role) + " takes from " + c.customSecret(role)
	}
	certificates, issued := c.nodes[pod]
	switch {
	case issued && c.now.Before(certificates.leaf.NotAfter) && role == contract.RaftRole:
		return "a Raft client keeps the certificate it was started with until its node is restarted; see condition RollingUpdate for what holds up the restart"
	case issued && c.now.Before(certificates.leaf.NotAfter):
		return "new ones have been issued and are being loaded"
	default:
		return "see conditions Warning and " + string(conditionClusterCATrust) + " for why no new ones are issued, and Secret " +
			authorities.Cluster.KeySecret(c.kafka.Name) + " for the key that is needed"
	}
}

func (c *desired) customSecret(role publication.Role) string {
	for _, listener := range c.cluster.Listeners {
		if listener.Key() == role && listener.Certificate != nil && listener.Certificate.Secret != "" {
			return "Secret " + listener.Certificate.Secret
		}
	}
	return "its Secret"
}
