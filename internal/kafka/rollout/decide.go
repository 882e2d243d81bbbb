package rollout

import (
	"cmp"
	"slices"
)

// Decide says which single pod may be disrupted now, and who refuses the rest.
// It is total and deterministic: any snapshot has exactly one decision.
func Decide(s Snapshot) Decision {
	return decide(s, gates())
}

// decide is Decide with a given table, so that a test can take each gate away and
// show that it was needed.
func decide(s Snapshot, table []gate) Decision {
	v := newView(s)
	d := Decision{Settled: v.intent == intentOver}
	for _, n := range v.candidates() {
		refused := refusals(v, n, table)
		d.Blockers = append(d.Blockers, refused...)
		if d.Act == nil && len(refused) == 0 {
			d.Act = act(n)
		}
	}
	if v.intent == intentUndone && !d.actsOn(s.Disruption.UID) {
		// The pod of the record is unchanged, and it is not disrupted now. Its deletion might
		// still be on its way, so this reconcile only clears the record and disrupts no other pod.
		d.Settled, d.Act = true, nil
	}
	return d
}

// refusals asks every gate about one node.
func refusals(v *view, n *Node, table []gate) []Blocker {
	var out []Blocker
	for _, g := range table {
		if b, refused := g.refuse(v, n); refused {
			b.Gate, b.Node = g.name, n.ID
			out = append(out, b)
		}
	}
	return out
}

// actsOn reports whether the decision disrupts the pod with that UID.
func (d Decision) actsOn(uid UID) bool {
	return d.Act != nil && d.Act.UID == uid
}

// act describes the disruption of a node.
func act(n *Node) *Act {
	a := &Act{Kind: Restart, Node: n.ID, PodName: n.PodName, UID: n.Pod.UID, Recovery: n.broken()}
	reasons := n.Reasons
	if n.removed() {
		a.Kind, reasons = Remove, nil
	} else if n.Pod.State == Stuck {
		reasons = append(slices.Clone(reasons), Reason{Code: PodStuck, Note: n.Pod.StuckReason})
	}
	a.Reasons = sortReasons(reasons)
	return a
}

// candidates lists the nodes for which something is to be done, in the order in
// which their turn comes: what does not work first, then removals from the
// highest id down, controllers, the active controller, brokers.
func (v *view) candidates() []*Node {
	out := make([]*Node, 0, len(v.nodes))
	for i := range v.nodes {
		if n := &v.nodes[i]; n.wanted() {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *Node) int {
		if c := cmp.Compare(v.rank(a), v.rank(b)); c != 0 {
			return c
		}
		if a.removed() && b.removed() {
			return cmp.Compare(b.ID, a.ID)
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return out
}

// rank orders candidates; the smallest goes first.
func (v *view) rank(n *Node) int {
	switch {
	case n.Pod.State == Stuck:
		return 0
	case n.broken():
		return 1
	case n.removed():
		return 2
	case n.Controller && v.quorum.Leader != n.ID:
		return 3
	case n.Controller:
		return 4
	default:
		return 5
	}
}

// wanted reports whether anything is to be done to the node's pod.
func (n *Node) wanted() bool {
	if n.removed() {
		return n.Pod.State != Missing
	}
	return len(n.Reasons) > 0
}

// removed reports whether the node shall be taken away.
func (n *Node) removed() bool { return n.Removal != Keep }

// broken reports whether the node has a pod that does not work, so that nothing
// is lost by replacing it.
func (n *Node) broken() bool { return n.Pod.State == Unready || n.Pod.State == Stuck }

// away reports whether the node's process is gone or going, or cannot run.
func (n *Node) away() bool { return n.Pod.State <= Stuck }

// absent reports whether the node should have a pod and has none that stays.
func (n *Node) absent() bool {
	return n.Pod.State == Terminating || (n.Pod.State == Missing && !n.removed())
}
