package rollout

import (
	"flag"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"
)

var wide = flag.Bool("wide", false, "walk also what differs only by the names of the nodes")

// The walk visits every combination of what a small cluster may look like, also
// those that a real one is unlikely to show, and checks every decision.

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// face is one way a single node may look.
type face struct {
	pod     Pod
	server  ServerState
	reasons []Reason
	removal Removal
}

// faces lists the ways a node may look. The server's state varies only where a
// decision may depend on it.
func faces() []face {
	pods := []face{
		{pod: Pod{State: Missing}},
		{pod: Pod{State: Terminating, UID: "u"}},
		{pod: Pod{State: Stuck, UID: "u", StuckReason: "CrashLoopBackOff"}},
		{pod: Pod{State: Unready, UID: "u", Since: now}},
		{pod: Pod{State: Unready, UID: "u", Since: now.Add(-time.Hour)}},
		{pod: Pod{State: Unready, UID: "u", Since: now.Add(-time.Hour)}, server: ServerRecovering},
		{pod: Pod{State: Ready, UID: "u"}},
		{pod: Pod{State: Ready, UID: "u"}, server: ServerRunning},
	}
	var out []face
	for _, f := range pods {
		if f.pod.State != Terminating {
			out = append(out, f)
		}
		f.reasons = []Reason{{Code: ConfigChanged}}
		if f.pod.State != Missing {
			out = append(out, f)
		}
	}
	working := pods[len(pods)-1]
	working.removal = RemoveWhenEmpty
	return append(out, working)
}

// world is a shape of cluster to be walked.
type world struct {
	name        string
	controllers []NodeID
	brokers     []NodeID
	partitions  []Partition
	// lagging also walks voters that are not caught up although they run.
	lagging bool
	// twins says that the last two nodes differ by their names only.
	twins bool
}

// worlds lists them by size, so that a missing gate is found in the smallest.
func worlds() []world {
	topic := func(minInSync int, replicas ...NodeID) []Partition {
		return []Partition{{Topic: "orders", Leader: replicas[0], Replicas: replicas, MinInSync: minInSync}}
	}
	return []world{
		{name: "one dual-role node", controllers: []NodeID{0}, brokers: []NodeID{0}, partitions: topic(1, 0), lagging: true},
		{name: "two dual-role nodes", controllers: []NodeID{0, 1}, brokers: []NodeID{0, 1}, partitions: topic(1, 0, 1), lagging: true},
		{name: "one controller and two brokers", controllers: []NodeID{0}, brokers: []NodeID{1, 2}, partitions: topic(1, 1, 2), twins: true},
		{name: "one dual-role node and two brokers", controllers: []NodeID{0}, brokers: []NodeID{0, 1, 2}, partitions: topic(1, 0, 1)},
		{name: "three dual-role nodes", controllers: []NodeID{0, 1, 2}, brokers: []NodeID{0, 1, 2}, partitions: topic(2, 0, 1, 2), lagging: true, twins: true},
	}
}

func (w world) node(id NodeID, f face) Node {
	return Node{
		ID: id, PodName: fmt.Sprintf("my-%d", id), Pool: "my",
		Controller: has(w.controllers, id), Broker: has(w.brokers, id),
		Pod: f.pod, Server: f.server, Reasons: f.reasons, Removal: f.removal,
	}
}

func has(ids []NodeID, id NodeID) bool {
	return slices.Contains(ids, id)
}

// ids lists all nodes of the world.
func (w world) ids() []NodeID {
	seen := map[NodeID]bool{}
	var out []NodeID
	for _, list := range [][]NodeID{w.controllers, w.brokers} {
		for _, id := range list {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out
}

// snapshots yields every snapshot of the world.
func (w world) snapshots() iter.Seq[Snapshot] {
	return func(yield func(Snapshot) bool) {
		for nodes := range w.nodes(faces()) {
			for quorum := range w.quorums() {
				for partitions := range w.inSync() {
					for _, disruption := range w.disruptions() {
						if !yield(Snapshot{Now: now, Nodes: nodes, Quorum: quorum, Partitions: partitions, Disruption: disruption}) {
							return
						}
					}
				}
			}
		}
	}
}

func (w world) nodes(faces []face) iter.Seq[[]Node] {
	ids := w.ids()
	return func(yield func([]Node) bool) {
		for picks := range product(len(faces), len(ids)) {
			if w.twins && !*wide && mirrored(picks) {
				continue
			}
			nodes := make([]Node, 0, len(ids))
			for i, pick := range picks {
				nodes = append(nodes, w.node(ids[i], faces[pick]))
			}
			if !yield(nodes) {
				return
			}
		}
	}
}

// mirrored reports whether another tuple says the same with the last two nodes
// exchanged. Everything else that is walked is symmetric in them, the recorded
// disruption being always that of the first node.
func mirrored(picks []int) bool {
	last := len(picks) - 1
	return picks[last-1] > picks[last]
}

// product yields all tuples of length n over 0..base-1.
func product(base, n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		picks := make([]int, n)
		for {
			if !yield(picks) {
				return
			}
			i := 0
			for ; i < n; i++ {
				if picks[i]++; picks[i] < base {
					break
				}
				picks[i] = 0
			}
			if i == n {
				return
			}
		}
	}
}

func (w world) quorums() iter.Seq[Quorum] {
	return func(yield func(Quorum) bool) {
		if !yield(Quorum{}) {
			return
		}
		for mask := range 1 << len(w.controllers) {
			if !w.lagging && mask != 1<<len(w.controllers)-1 {
				continue
			}
			voters := make([]Voter, 0, len(w.controllers))
			for i, id := range w.controllers {
				voters = append(voters, Voter{ID: id, CaughtUp: mask>>i&1 == 1})
			}
			for _, leader := range append([]NodeID{NoLeader}, w.controllers...) {
				if leader != NoLeader && !caughtUp(voters, leader) {
					continue
				}
				if !yield(Quorum{Known: true, Leader: leader, Voters: voters}) {
					return
				}
			}
		}
	}
}

func caughtUp(voters []Voter, id NodeID) bool {
	for _, v := range voters {
		if v.ID == id {
			return v.CaughtUp
		}
	}
	return false
}

func (w world) inSync() iter.Seq[Partitions] {
	return func(yield func(Partitions) bool) {
		if !yield(Partitions{}) {
			return
		}
		first := w.partitions[0]
		for mask := range 1 << len(first.Replicas) {
			p := first
			p.Leader, p.InSync = NoLeader, nil
			for i, id := range first.Replicas {
				if mask>>i&1 == 1 {
					p.InSync, p.Leader = append(p.InSync, id), id
				}
			}
			if !yield(Partitions{Known: true, List: []Partition{p}}) {
				return
			}
		}
	}
}

func (w world) disruptions() []*Disruption {
	out := []*Disruption{nil}
	for _, id := range w.ids()[:1] {
		out = append(out, &Disruption{Node: id, UID: "u", Since: now}, &Disruption{Node: id, UID: "before", Since: now})
	}
	return out
}

// counterexample walks the world with a table of gates and returns the first
// decision that breaks an invariant, and how many snapshots it saw.
func (w world) counterexample(table []gate) (string, int) {
	seen, rules := 0, invariants()
	for s := range w.snapshots() {
		seen++
		d := decide(s, table)
		for _, rule := range rules {
			if wrong := rule.wrong(&s, d); wrong != "" {
				return fmt.Sprintf("%s: %s\n%s\n%+v", rule.name, wrong, describe(s), d.Act), seen
			}
		}
	}
	return "", seen
}

// describe prints a snapshot for a person who has to understand a failure.
func describe(s Snapshot) string {
	out := fmt.Sprintf("quorum %+v\npartitions %+v\ndisruption %+v\n", s.Quorum, s.Partitions, s.Disruption)
	for _, n := range s.Nodes {
		out += fmt.Sprintf("node %d pod %+v server %d reasons %v removal %d\n", n.ID, n.Pod, n.Server, n.Reasons, n.Removal)
	}
	return out
}

func TestNoStateOfASmallClusterBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	for _, w := range worlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			found, seen := w.counterexample(gates())
			if found != "" {
				t.Fatal(found)
			}
			t.Logf("%d snapshots", seen)
		})
	}
}

func TestEveryGateIsNeeded(t *testing.T) {
	t.Parallel()
	for i, g := range gates() {
		t.Run(string(g.name), func(t *testing.T) {
			t.Parallel()
			table := slices.Delete(gates(), i, i+1)
			for _, w := range worlds() {
				if found, seen := w.counterexample(table); found != "" {
					t.Logf("without it, after %d snapshots of %s: %s", seen, w.name, found)
					return
				}
			}
			t.Error("no state shows that this gate is needed")
		})
	}
}
