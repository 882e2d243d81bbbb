package rollout

import (
	"fmt"
	"slices"
)

// The invariants say what must hold of a decision in words of the cluster, not in
// words of the gates: they are written without a look at the code they judge.

// invariant is a property of one decision; it returns what is wrong, or "".
type invariant struct {
	name  string
	wrong func(s *Snapshot, d Decision) string
}

func invariants() []invariant {
	return []invariant{
		{"an act is about a pod that is there, asked for, and named by its UID", wrongTarget},
		{"nobody is disrupted while another pod is away", wrongWhileAway},
		{"a pod that works is disrupted only when all others work and say so", wrongWhileUnwell},
		{"the next pod waits until the last one is back and caught up", wrongSecond},
		{"a pod that may be recovering its logs is left alone", wrongRecovering},
		{"controllers go before brokers, the active one last", wrongOrder},
		{"the quorum keeps what it has", wrongQuorum},
		{"every partition keeps what it has", wrongPartitions},
		{"a node that holds replicas is not removed", wrongRemoval},
		{"whoever has a reason and may not go is told by whom", wrongSilence},
	}
}

func target(s *Snapshot, d Decision) *Node {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == d.Act.Node })
	return &s.Nodes[i]
}

func others(s *Snapshot, n *Node) []*Node {
	var out []*Node
	for i := range s.Nodes {
		if s.Nodes[i].ID != n.ID {
			out = append(out, &s.Nodes[i])
		}
	}
	return out
}

// pending reports whether a node is to be restarted, or to go and still there.
func pending(n *Node) bool {
	if n.Removal != Keep {
		return n.Pod.State != Missing
	}
	return len(n.Reasons) > 0
}

func wrongTarget(s *Snapshot, d Decision) string {
	if d.Act == nil {
		return ""
	}
	n := target(s, d)
	switch {
	case n.Pod.State == Missing || n.Pod.State == Terminating:
		return "the pod is gone or going"
	case n.Pod.UID != d.Act.UID:
		return "the UID is another pod's"
	case n.Removal == Keep && len(n.Reasons) == 0:
		return "nobody asked for it"
	case (d.Act.Kind == Remove) != (n.Removal != Keep):
		return "restart and removal are mixed up"
	}
	return ""
}

func wrongWhileAway(s *Snapshot, d Decision) string {
	if d.Act == nil {
		return ""
	}
	for _, o := range others(s, target(s, d)) {
		if o.Pod.State == Terminating || o.Pod.State == Missing && o.Removal == Keep {
			return o.PodName + " is away"
		}
	}
	return ""
}

func wrongWhileUnwell(s *Snapshot, d Decision) string {
	if d.Act == nil || target(s, d).Pod.State != Ready {
		return ""
	}
	if target(s, d).Server == ServerUnknown {
		return "its own server is unknown"
	}
	for _, o := range others(s, target(s, d)) {
		if o.Pod.State == Unready || o.Pod.State == Stuck {
			return o.PodName + " does not work"
		}
		if o.Pod.State == Ready && o.Server == ServerUnknown {
			return o.PodName + " is silent"
		}
	}
	return ""
}

func wrongSecond(s *Snapshot, d Decision) string {
	if d.Act == nil || s.Disruption == nil || s.Disruption.Node == d.Act.Node {
		return ""
	}
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == s.Disruption.Node })
	if i < 0 {
		return ""
	}
	last := &s.Nodes[i]
	if last.Removal != Keep && last.Pod.State == Missing {
		return ""
	}
	if last.Pod.UID == s.Disruption.UID && last.Pod.State >= Stuck {
		return "a deletion of " + last.PodName + " may still be on its way"
	}
	if target(s, d).Pod.State != Ready {
		return ""
	}
	if last.Pod.State != Ready {
		return last.PodName + " is not back"
	}
	for _, v := range s.Quorum.Voters {
		if last.Controller && v.ID == last.ID && !v.CaughtUp {
			return last.PodName + " has not caught up with the quorum"
		}
	}
	for _, p := range s.Partitions.List {
		if last.Broker && slices.Contains(p.Replicas, last.ID) && !slices.Contains(p.InSync, last.ID) {
			return last.PodName + " is out of sync"
		}
	}
	return ""
}

func wrongRecovering(s *Snapshot, d Decision) string {
	if d.Act == nil || target(s, d).Pod.State != Unready {
		return ""
	}
	n := target(s, d)
	if n.Server == ServerRecovering {
		return "it is recovering"
	}
	if n.Server == ServerUnknown && s.Now.Sub(n.Pod.Since) < StartGrace {
		return "it may be recovering"
	}
	return ""
}

func wrongOrder(s *Snapshot, d Decision) string {
	if d.Act == nil || target(s, d).Pod.State != Ready {
		return ""
	}
	n := target(s, d)
	for _, o := range others(s, n) {
		if !o.Controller || !pending(o) {
			continue
		}
		if !n.Controller && n.Removal == Keep {
			return "controller " + o.PodName + " waits"
		}
		if s.Quorum.Known && s.Quorum.Leader == n.ID {
			return o.PodName + " should go before the active controller"
		}
	}
	return ""
}

// wrongQuorum: after the act a majority of voters is caught up with a pod that
// runs, unless the cluster is no worse off than before.
func wrongQuorum(s *Snapshot, d Decision) string {
	if d.Act == nil {
		return ""
	}
	n, counts := target(s, d), map[NodeID]bool{}
	for _, v := range s.Quorum.Voters {
		counts[v.ID] = v.CaughtUp
	}
	for _, o := range s.Nodes {
		counts[o.ID] = counts[o.ID] && (o.Pod.State == Ready || o.Pod.State == Unready)
	}
	if n.Pod.State != Ready && !n.Controller {
		return ""
	}
	if !s.Quorum.Known {
		if n.Pod.State == Ready {
			return "nobody knows the quorum"
		}
		if n.Pod.State == Unready && !frozen(s) {
			return "nobody knows the quorum, and others work"
		}
		return ""
	}
	after := 0
	for id, yes := range counts {
		if yes && id != n.ID {
			after++
		}
	}
	harmless := n.Pod.State != Ready && (!counts[n.ID] || s.Quorum.Leader == NoLeader)
	switch voters := len(s.Quorum.Voters); {
	case harmless, voters == 1 && counts[n.ID], voters == 2 && after == 1:
		return ""
	case s.Quorum.Leader == NoLeader:
		return "there is no leader"
	case after <= voters/2:
		return fmt.Sprintf("%d of %d voters are left", after, voters)
	}
	return ""
}

// frozen: no active controller can be at work, so that in-sync sets stay what
// they last were.
func frozen(s *Snapshot) bool {
	if s.Quorum.Known {
		return s.Quorum.Leader == NoLeader
	}
	all, work, run := 0, 0, 0
	for _, n := range s.Nodes {
		if !n.Controller {
			continue
		}
		all++
		if n.Pod.State == Ready {
			work++
		}
		if n.Pod.State >= Unready {
			run++
		}
	}
	return work == 0 || run <= all/2
}

// wrongPartitions: after the act enough in-sync replicas run, unless the node
// contributed nothing or the partition can never spare a replica.
func wrongPartitions(s *Snapshot, d Decision) string {
	if d.Act == nil || !target(s, d).Broker {
		return ""
	}
	n := target(s, d)
	works, someWork := n.Pod.State == Ready, false
	for _, o := range s.Nodes {
		someWork = someWork || o.Broker && o.Pod.State == Ready
	}
	if !s.Partitions.Known {
		if works || n.Pod.State == Unready && someWork {
			return "nobody knows the partitions"
		}
		return ""
	}
	for _, p := range s.Partitions.List {
		if len(p.Replicas) <= p.MinInSync || !slices.Contains(p.Replicas, n.ID) {
			continue
		}
		idle := n.Pod.State == Stuck || !someWork || frozen(s) || p.Leader == NoLeader || !slices.Contains(p.InSync, n.ID)
		if !works && idle {
			continue
		}
		left := 0
		for _, id := range p.InSync {
			i := slices.IndexFunc(s.Nodes, func(o Node) bool { return o.ID == id })
			if id != n.ID && s.Nodes[i].Pod.State >= Unready {
				left++
			}
		}
		if left < p.MinInSync {
			return fmt.Sprintf("%s-%d is left with %d of %d", p.Topic, p.Index, left, p.MinInSync)
		}
	}
	return ""
}

func wrongRemoval(s *Snapshot, d Decision) string {
	if d.Act == nil || target(s, d).Removal != RemoveWhenEmpty || !target(s, d).Broker {
		return ""
	}
	if !s.Partitions.Known {
		return "nobody knows whether it is empty"
	}
	for _, p := range s.Partitions.List {
		if slices.Contains(p.Replicas, d.Act.Node) {
			return "it holds " + p.Topic
		}
	}
	return ""
}

func wrongSilence(s *Snapshot, d Decision) string {
	if d.Settled && d.Act == nil {
		return "" // the next pass begins without the old record
	}
	for _, n := range s.Nodes {
		if !pending(&n) || d.Act != nil {
			continue
		}
		named := slices.ContainsFunc(d.Blockers, func(b Blocker) bool {
			return b.Node == n.ID && b.Who != "" && b.Message != "" && b.Gate != ""
		})
		if !named {
			return n.PodName + " waits and nobody says for whom"
		}
	}
	return ""
}
