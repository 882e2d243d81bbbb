package rollout

import (
	"cmp"
	"slices"
)

// intent is what became of the recorded disruption.
type intent uint8

const (
	intentNone intent = iota
	// intentUndone: the pod of the record is still there, untouched.
	intentUndone
	// intentRunning: the pod is going, gone, or back but not yet caught up.
	intentRunning
	// intentOver: the node is back and caught up, or removed.
	intentOver
)

// view is a snapshot with the questions that several gates ask answered once.
type view struct {
	Snapshot

	nodes []Node
	byID  map[NodeID]*Node
	// away are the nodes whose process is gone or going; most of the time none.
	away   map[NodeID]bool
	quorum Quorum
	intent intent
	// absent, broken, silent are the nodes that stand in the way of others, by
	// id. silent are ready pods whose agent did not answer.
	absent, broken, silent []*Node
	// waiting are controllers that are to be restarted or removed, by id.
	waiting []*Node
	// thin maps a node to the partitions that would be left with too few
	// in-sync replicas without it.
	thin map[NodeID][]*Partition
	// running and ready count controllers whose process may run, and those
	// whose pod is ready; brokersReady counts brokers.
	controllers, running, ready, brokersReady int
}

func newView(s Snapshot) *view {
	v := &view{Snapshot: s, nodes: slices.Clone(s.Nodes), quorum: s.Quorum}
	if !v.quorum.Known {
		v.quorum = Quorum{Leader: NoLeader}
	}
	slices.SortFunc(v.nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	v.byID = make(map[NodeID]*Node, len(v.nodes))
	v.away = make(map[NodeID]bool)
	for i := range v.nodes {
		n := &v.nodes[i]
		v.byID[n.ID] = n
		v.sort(n)
	}
	v.thin = v.thinWithout()
	v.intent = v.judgeIntent()
	return v
}

// sort files one node under what it means for the others.
func (v *view) sort(n *Node) {
	switch {
	case n.absent():
		v.absent = append(v.absent, n)
	case n.broken():
		v.broken = append(v.broken, n)
	case n.Pod.State == Ready && n.Server == ServerUnknown:
		v.silent = append(v.silent, n)
	}
	if n.Broker && n.Pod.State == Ready {
		v.brokersReady++
	}
	if n.away() {
		v.away[n.ID] = true
	}
	if n.Controller {
		v.count(n)
	}
}

// count takes a controller into account.
func (v *view) count(n *Node) {
	v.controllers++
	if !n.away() {
		v.running++
	}
	if n.Pod.State == Ready {
		v.ready++
	}
	if n.wanted() {
		v.waiting = append(v.waiting, n)
	}
}

// thinWithout finds, for every node, the partitions that need it. A partition
// with no more replicas than min.insync.replicas can never spare one; waiting for
// it would be waiting for ever, so it is left out (as Strimzi does).
func (v *view) thinWithout() map[NodeID][]*Partition {
	thin := make(map[NodeID][]*Partition)
	for i := range v.Partitions.List {
		p := &v.Partitions.List[i]
		if len(p.Replicas) <= p.MinInSync {
			continue
		}
		alive := 0
		for _, id := range p.InSync {
			if v.alive(id) {
				alive++
			}
		}
		if alive > p.MinInSync {
			continue // it can spare any one of them
		}
		for _, id := range p.Replicas {
			left := alive
			if p.contains(id) && v.alive(id) {
				left--
			}
			if left < p.MinInSync {
				thin[id] = append(thin[id], p)
			}
		}
	}
	return thin
}

// alive reports whether a member of a quorum or of an in-sync set can be counted
// on: what Kafka still lists may already be on its way out.
func (v *view) alive(id NodeID) bool { return !v.away[id] }

// judgeIntent compares the recorded disruption with the pod that is there now.
func (v *view) judgeIntent() intent {
	if v.Disruption == nil {
		return intentNone
	}
	n, ok := v.byID[v.Disruption.Node]
	switch {
	case !ok:
		return intentOver
	case n.Pod.State == Missing && n.removed():
		return intentOver
	case n.Pod.State == Missing || n.Pod.State == Terminating:
		return intentRunning
	case n.Pod.UID == v.Disruption.UID:
		return intentUndone
	case n.Pod.State != Ready:
		return intentRunning
	}
	if _, behind := v.lag(n); behind {
		return intentRunning
	}
	return intentOver
}

// lag says what a node that is back still has to catch up with.
func (v *view) lag(n *Node) (string, bool) {
	if n.Controller {
		if !v.quorum.Known {
			return "the state of the quorum", true
		}
		for _, voter := range v.quorum.Voters {
			if voter.ID == n.ID && !voter.CaughtUp {
				return "the metadata quorum", true
			}
		}
	}
	if !n.Broker {
		return "", false
	}
	if !v.Partitions.Known {
		return "the state of the partitions", true
	}
	var behind []*Partition
	for i := range v.Partitions.List {
		p := &v.Partitions.List[i]
		if slices.Contains(p.Replicas, n.ID) && !slices.Contains(p.InSync, n.ID) {
			behind = append(behind, p)
		}
	}
	if len(behind) == 0 {
		return "", false
	}
	return namePartitions(behind), true
}

// quorumLeft counts the caught-up voters that remain without the node, and says
// how many voters there are.
func (v *view) quorumLeft(without NodeID) (left, voters int) {
	for _, voter := range v.quorum.Voters {
		if voter.ID != without && voter.CaughtUp && v.alive(voter.ID) {
			left++
		}
	}
	return left, len(v.quorum.Voters)
}

// caughtUpVoter reports whether the quorum counts on the node.
func (v *view) caughtUpVoter(id NodeID) bool {
	return slices.ContainsFunc(v.quorum.Voters, func(voter Voter) bool {
		return voter.ID == id && voter.CaughtUp
	})
}
