package rollout

import (
	"cmp"
	"fmt"
	"slices"
)

// The gates of this file ask who is left after the act.
//
// For a pod that works they need full knowledge. For one that does not, they ask
// whether its absence changes anything: if the node is not counted on now, the
// cluster without it is the cluster as it is. And where nothing is known because
// nothing runs, there is nothing left to protect; refusing would keep a cluster
// down whose repair has already been written.

// Where to look when those who know the state of the cluster do not tell it.
const (
	checkControllers = "check the logs of the controllers, and what keeps the operator from reaching port 9090 of their pods"
	checkBrokers     = "check the logs of the brokers, and what keeps the operator from reaching port 9091 of their pods"
)

// refuseQuorum keeps a majority of caught-up voters.
func refuseQuorum(v *view, n *Node) (Blocker, bool) {
	if n.broken() {
		return refuseQuorumBroken(v, n)
	}
	if !v.quorum.Known {
		return quorumBlocker("no controller reports the state of the quorum: " + checkControllers)
	}
	if v.quorum.Leader == NoLeader {
		return quorumBlocker("the quorum has no leader: check the logs of the controllers")
	}
	return refuseMajority(v, n)
}

// refuseQuorumBroken lets a node go that the quorum does not count on.
func refuseQuorumBroken(v *view, n *Node) (Blocker, bool) {
	switch {
	case !n.Controller, n.Pod.State == Stuck:
		return Blocker{}, false
	case v.headless(), v.quorum.Known && !v.caughtUpVoter(n.ID):
		return Blocker{}, false
	case v.quorum.Known:
		return refuseMajority(v, n)
	}
	return quorumBlocker("no controller reports the state of the quorum, which may need " + n.PodName + ": " + checkControllers)
}

// refuseMajority projects the quorum after the act. A single voter has no other to wait
// for. Of two voters the other one must be caught up: for a moment there is no majority,
// but nothing is lost.
func refuseMajority(v *view, n *Node) (Blocker, bool) {
	left, voters := v.quorumLeft(n.ID)
	if voters == 1 && v.quorum.Voters[0].ID == n.ID {
		return Blocker{}, false
	}
	need := majority(voters)
	if voters == 2 {
		need = 1
	}
	if left >= need {
		return Blocker{}, false
	}
	return quorumBlocker(fmt.Sprintf("without %s only %d of %d voters would be caught up, but %d are needed: check the logs of the voters that do not catch up",
		n.PodName, left, voters, need))
}

// headless reports whether the quorum certainly decides nothing now: a controller
// said so, or too few of them can be running.
func (v *view) headless() bool {
	if v.quorum.Known {
		return v.quorum.Leader == NoLeader
	}
	return v.ready == 0 || v.running < majority(v.controllers)
}

// majority is the least number of voters that can decide.
func majority(voters int) int { return voters/2 + 1 }

func quorumBlocker(message string) (Blocker, bool) {
	return Blocker{Who: "controller quorum", Message: message}, true
}

// refusePartitions keeps min.insync.replicas of every partition on the node.
func refusePartitions(v *view, n *Node) (Blocker, bool) {
	switch {
	case !n.Broker:
		return Blocker{}, false
	case v.Partitions.Known:
	case n.broken() && (n.Pod.State == Stuck || v.brokersReady == 0):
		return Blocker{}, false
	default:
		return Blocker{Who: "partitions", Message: "no broker reports which partitions are in sync: " + checkBrokers}, true
	}
	thin := v.thin[n.ID]
	if n.broken() {
		thin = v.countedOn(n, thin)
	}
	if len(thin) == 0 {
		return Blocker{}, false
	}
	who := namePartitions(thin)
	return Blocker{
		Who: who,
		Message: fmt.Sprintf("without %s too few in-sync replicas (min.insync.replicas) would be left for %s: check the logs of the brokers that have the other replicas",
			n.PodName, who),
	}, true
}

// countedOn leaves the partitions that a node which does not work still serves.
// Without an active controller in-sync sets are frozen and say nothing about now;
// a partition without a leader has nothing to lose.
func (v *view) countedOn(n *Node, thin []*Partition) []*Partition {
	if n.Pod.State == Stuck || v.brokersReady == 0 || v.headless() {
		return nil
	}
	var out []*Partition
	for _, p := range thin {
		if p.contains(n.ID) && p.Leader != NoLeader {
			out = append(out, p)
		}
	}
	return out
}

// refuseReplicas keeps a node that is to be removed until it is empty.
func refuseReplicas(v *view, n *Node) (Blocker, bool) {
	if n.Removal != RemoveWhenEmpty || !n.Broker {
		return Blocker{}, false
	}
	if !v.Partitions.Known {
		return Blocker{Who: "partitions", Message: "no broker reports which partitions have a replica on " + n.PodName + ": " + checkBrokers}, true
	}
	var held []*Partition
	for i := range v.Partitions.List {
		if p := &v.Partitions.List[i]; slices.Contains(p.Replicas, n.ID) {
			held = append(held, p)
		}
	}
	if len(held) == 0 {
		return Blocker{}, false
	}
	who := namePartitions(held)
	return Blocker{
		Who:     who,
		Message: fmt.Sprintf("pod %s is not removed while it holds replicas of %s; move them to other brokers", n.PodName, who),
	}, true
}

// namePartitions names the first of several partitions; the rest is counted, so
// that a message stays readable with ten thousand of them.
func namePartitions(partitions []*Partition) string {
	first := slices.MinFunc(partitions, func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
	return fmt.Sprintf("topic %s partition %d%s", first.Topic, first.Index, andMore(len(partitions)-1))
}
