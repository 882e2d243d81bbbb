package rollout

import "slices"

// Step is one act of a plan.
type Step struct {
	Act Act
	// After lists what must be over before it; empty when the act before it is
	// all that it waits for.
	After []Blocker
}

// Projection is the course a rollout takes if every pod that is restarted comes
// back, every broker catches up and maintenance windows open.
type Projection struct {
	Steps []Step
	// Blocked is what time alone does not solve; empty when the plan serves
	// every reason.
	Blocked []Blocker
}

// Plan plays Decide to the end on a cluster that obeys. The first step without
// After is what Decide would do now.
func Plan(s Snapshot) Projection {
	var (
		p     Projection
		after []Blocker
		cur   = s.clone()
	)
	for {
		d := Decide(cur)
		switch {
		case d.Act != nil:
			p.Steps = append(p.Steps, Step{Act: *d.Act, After: after})
			after = nil
			cur.obey(*d.Act)
		case len(d.Blockers) == 0:
			return p
		case cur.pass():
			after = slices.Concat(after, d.Blockers)
		default:
			p.Blocked = d.Blockers
			return p
		}
	}
}

// clone copies everything that obey and pass change.
func (s *Snapshot) clone() Snapshot {
	c := *s
	c.Nodes = slices.Clone(s.Nodes)
	c.Quorum.Voters = slices.Clone(s.Quorum.Voters)
	c.Partitions.List = slices.Clone(s.Partitions.List)
	return c
}

// obey changes the snapshot to what it is once the act is done and over.
func (s *Snapshot) obey(a Act) {
	s.Disruption = nil
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == a.Node })
	if a.Kind == Remove {
		s.Nodes = slices.Delete(s.Nodes, i, i+1)
	} else {
		s.Nodes[i].Reasons = nil
		s.comeBack(&s.Nodes[i])
	}
	if s.Quorum.Leader == a.Node {
		s.Quorum.Leader = s.nextLeader(a.Node)
	}
}

// comeBack makes a node ready and caught up.
func (s *Snapshot) comeBack(n *Node) {
	n.Pod = Pod{State: Ready, UID: n.Pod.UID + "+"}
	n.Server = ServerRunning
	for i := range s.Quorum.Voters {
		if s.Quorum.Voters[i].ID == n.ID {
			s.Quorum.Voters[i].CaughtUp = true
		}
	}
	for i := range s.Partitions.List {
		p := &s.Partitions.List[i]
		if slices.Contains(p.Replicas, n.ID) && !p.contains(n.ID) {
			p.InSync = append(slices.Clone(p.InSync), n.ID)
		}
	}
}

// nextLeader is the voter that takes over from one that goes.
func (s *Snapshot) nextLeader(from NodeID) NodeID {
	next := from
	for _, voter := range s.Quorum.Voters {
		if voter.ID != from && voter.CaughtUp && (next == from || voter.ID < next) {
			next = voter.ID
		}
	}
	return next
}

// pass lets the time pass that the cluster needs by itself, and reports whether
// that changed anything. Pods that are stuck stay stuck, and what nobody knows
// stays unknown.
func (s *Snapshot) pass() bool {
	changed := s.Disruption != nil || !s.Policy.WindowOpen
	s.Disruption, s.Policy.WindowOpen = nil, true
	for i := 0; i < len(s.Nodes); i++ {
		n := &s.Nodes[i]
		switch {
		case n.removed() && n.Pod.State <= Terminating:
			s.Nodes = slices.Delete(s.Nodes, i, i+1)
			i--
		case n.Pod.State == Stuck, n.settled(s):
			continue
		default:
			s.comeBack(n)
		}
		changed = true
	}
	return changed
}

// settled reports whether time has nothing to do for the node any more.
func (n *Node) settled(s *Snapshot) bool {
	if n.Pod.State != Ready || n.Server != ServerRunning {
		return false
	}
	for _, voter := range s.Quorum.Voters {
		if voter.ID == n.ID && !voter.CaughtUp {
			return false
		}
	}
	return !slices.ContainsFunc(s.Partitions.List, func(p Partition) bool {
		return slices.Contains(p.Replicas, n.ID) && !p.contains(n.ID)
	})
}
