package rollout

import (
	"fmt"
	"slices"
)

// gate is one named rule. It refuses by returning a blocker; Gate and Node are
// filled in by the caller.
type gate struct {
	name   GateName
	refuse func(*view, *Node) (Blocker, bool)
}

// gates is the table of all rules. Each is asked about each candidate, so that a
// person sees everything that stands in the way at once.
func gates() []gate {
	return []gate{
		{GatePodPresent, refuseAbsent},
		{GateOneAtATime, refuseSecond},
		{GateOthersPresent, refuseWhileAbsent},
		{GateOthersReady, refuseWhileBroken},
		{GateEvidence, refuseWithoutEvidence},
		{GateNotStarting, refuseStarting},
		{GateControllersFirst, refuseBeforeControllers},
		{GateLeaderLast, refuseLeader},
		{GateQuorum, refuseQuorum},
		{GatePartitions, refusePartitions},
		{GateEmpty, refuseReplicas},
	}
}

// refuseAbsent: there is nothing to delete, or it is being deleted already.
func refuseAbsent(_ *view, n *Node) (Blocker, bool) {
	switch n.Pod.State {
	case Missing:
		return about(n, "pod %s does not exist and is about to be created", n.PodName)
	case Terminating:
		return about(n, "pod %s is being deleted", n.PodName)
	default:
		return Blocker{}, false
	}
}

// refuseSecond: a recorded disruption must be over before the next begins. The
// node of the record itself is not held up by it, and neither is a node that does
// not work: the disrupted node may be waiting for exactly that one.
func refuseSecond(v *view, n *Node) (Blocker, bool) {
	if v.intent != intentUndone && v.intent != intentRunning || v.Disruption.Node == n.ID {
		return Blocker{}, false
	}
	if v.intent == intentRunning && n.broken() {
		return Blocker{}, false
	}
	first := v.byID[v.Disruption.Node]
	what, behind := v.lag(first)
	state := "is to be restarted first"
	switch {
	case v.intent == intentUndone:
	case first.Pod.State != Ready:
		state = "was restarted and is not ready yet"
	case behind:
		state = "was restarted and has not caught up with " + what
	}
	return Blocker{
		Who:     first.PodName,
		Message: fmt.Sprintf("pod %s %s", first.PodName, state),
		Since:   v.Disruption.Since,
	}, true
}

// refuseWhileAbsent: one pod at a time, whatever deleted the other one.
func refuseWhileAbsent(v *view, n *Node) (Blocker, bool) {
	other, more, found := otherThan(v.absent, n)
	if !found {
		return Blocker{}, false
	}
	state := "does not exist yet"
	if other.Pod.State == Terminating {
		state = "is being deleted"
	}
	return about(other, "pod %s %s%s", other.PodName, state, more)
}

// refuseWhileBroken: a pod that works waits until all others do.
func refuseWhileBroken(v *view, n *Node) (Blocker, bool) {
	if n.broken() {
		return Blocker{}, false
	}
	other, more, found := otherThan(v.broken, n)
	if !found {
		return Blocker{}, false
	}
	if other.Pod.State == Stuck {
		return about(other, "pod %s is stuck (%s)%s; it is replaced as soon as its specification, configuration or certificates change",
			other.PodName, other.Pod.StuckReason, more)
	}
	return about(other, "pod %s is not ready%s", other.PodName, more)
}

// refuseWithoutEvidence: a pod that works is not touched while its own agent or
// that of another ready pod is silent. One that is to be removed may be silent itself.
func refuseWithoutEvidence(v *view, n *Node) (Blocker, bool) {
	if n.broken() {
		return Blocker{}, false
	}
	for _, other := range v.silent {
		if other.ID != n.ID || !n.removed() {
			return about(other, "the agent of pod %s does not answer, so the state of its server is unknown: check what keeps the operator from reaching port 8443 of the pod", other.PodName)
		}
	}
	return Blocker{}, false
}

// refuseStarting: a broker that reads its logs is not disturbed, and neither is a
// pod that may be doing so.
func refuseStarting(v *view, n *Node) (Blocker, bool) {
	if n.Pod.State != Unready {
		return Blocker{}, false
	}
	if n.Server == ServerRecovering {
		return about(n, "the broker in pod %s is recovering its logs", n.PodName)
	}
	if n.Server == ServerUnknown && v.Now.Sub(n.Pod.Since) < StartGrace {
		return about(n, "pod %s may be starting: it is not ready and its agent does not answer", n.PodName)
	}
	return Blocker{}, false
}

// refuseBeforeControllers: brokers may need what only the new controllers know.
func refuseBeforeControllers(v *view, n *Node) (Blocker, bool) {
	if n.broken() || n.Controller || n.removed() {
		return Blocker{}, false
	}
	other, more, found := otherThan(v.waiting, n)
	if !found {
		return Blocker{}, false
	}
	return about(other, "controller %s is restarted before brokers%s", other.PodName, more)
}

// refuseLeader: the active controller goes last, so that leadership moves once.
func refuseLeader(v *view, n *Node) (Blocker, bool) {
	if n.broken() || n.ID != v.quorum.Leader {
		return Blocker{}, false
	}
	other, more, found := otherThan(v.waiting, n)
	if !found {
		return Blocker{}, false
	}
	return about(other, "pod %s runs the active controller and goes after %s%s", n.PodName, other.PodName, more)
}

// otherThan returns the first listed node that is not n, and how many more.
func otherThan(nodes []*Node, n *Node) (first *Node, more string, found bool) {
	others := len(nodes)
	for _, other := range nodes {
		if other.ID == n.ID {
			others--
		} else if first == nil {
			first = other
		}
	}
	if first == nil {
		return nil, "", false
	}
	return first, andMore(others - 1), true
}

// andMore is the tail of a sentence that names one of several.
func andMore(count int) string {
	if count <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", count)
}

// about is a blocker that waits for a pod.
func about(n *Node, format string, args ...any) (Blocker, bool) {
	return Blocker{Who: n.PodName, Message: fmt.Sprintf(format, args...), Since: n.Pod.Since}, true
}

// contains reports whether the partition counts the node among its in-sync ones.
func (p *Partition) contains(id NodeID) bool { return slices.Contains(p.InSync, id) }
