package rollout

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Liveness is played on a cluster with physics: pods take time, a quorum needs a
// majority of nodes whose configuration works, in-sync sets follow what runs, and
// nobody can ask a quorum that does not exist. The only help from outside is what
// a real cluster gives: the pod set makes missing pods, and a pod that was made
// from a good specification works as soon as the cluster lets it.

// plant is one node with its hidden truth.
type plant struct {
	node Node
	// good is true when what the pod was started with can work.
	good bool
	age  int
}

// cluster is the physical cluster.
type cluster struct {
	plants     []plant
	leader     NodeID
	inSync     map[NodeID]bool
	topic      []NodeID
	minInSync  int
	disruption *Disruption
	tick       int
}

// serves reports whether the server process takes part in the quorum.
func (p *plant) serves() bool { return p.good && p.node.Pod.State >= Unready }

func (c *cluster) quorate() bool {
	serving, all := 0, 0
	for _, p := range c.plants {
		if p.node.Controller {
			all++
			if p.serves() {
				serving++
			}
		}
	}
	return serving > all/2
}

// elapse lets one minute pass.
func (c *cluster) elapse() {
	c.tick++
	quorate := c.quorate()
	for i := range c.plants {
		c.plants[i].elapse(c.tick, quorate)
	}
	c.elect(quorate)
	if !quorate {
		return // in-sync sets are frozen without an active controller
	}
	for _, id := range c.topic {
		p := c.plant(id)
		switch {
		case p.node.Pod.State == Ready:
			c.inSync[id] = true
		case !p.serves() && len(c.inSync) > 1:
			delete(c.inSync, id)
		}
	}
}

func (p *plant) elapse(tick int, quorate bool) {
	p.age++
	switch {
	case p.node.Pod.State == Terminating:
		p.become(Missing, "")
	case p.node.Pod.State == Missing:
		p.good = true
		p.node.Reasons = nil
		p.become(Unready, UID(fmt.Sprintf("%d@%d", p.node.ID, tick)))
	case p.good && p.node.Pod.State == Unready && quorate:
		p.become(Ready, p.node.Pod.UID)
	case p.good && p.node.Broker && !quorate && p.node.Pod.State == Unready && p.age > 2:
		// A broker that finds no quorum gives up and is started again.
		p.become(Stuck, p.node.Pod.UID)
		p.node.Pod.StuckReason = "CrashLoopBackOff"
	case p.good && p.node.Pod.State == Stuck:
		p.become(Unready, p.node.Pod.UID)
	}
}

func (p *plant) become(state PodState, uid UID) {
	p.node.Pod = Pod{State: state, UID: uid}
	p.age = 0
}

func (c *cluster) elect(quorate bool) {
	if !quorate {
		c.leader = NoLeader
		return
	}
	if c.leader != NoLeader && c.plant(c.leader).serves() {
		return
	}
	for _, p := range c.plants {
		if p.node.Controller && p.serves() {
			c.leader = p.node.ID
			return
		}
	}
}

func (c *cluster) plant(id NodeID) *plant {
	i := slices.IndexFunc(c.plants, func(p plant) bool { return p.node.ID == id })
	return &c.plants[i]
}

// observe is what an operator can see of it.
func (c *cluster) observe() Snapshot {
	s := Snapshot{Now: now.Add(time.Duration(c.tick) * time.Minute), Disruption: c.disruption}
	answering, brokers := false, false
	for _, p := range c.plants {
		n := p.node
		n.Server = ServerUnknown
		if p.serves() {
			n.Server = ServerStarting
			answering = answering || n.Controller
		}
		if n.Pod.State == Ready {
			n.Server = ServerRunning
			brokers = brokers || n.Broker
		}
		s.Nodes = append(s.Nodes, n)
		if n.Controller {
			s.Quorum.Voters = append(s.Quorum.Voters, Voter{ID: n.ID, CaughtUp: p.serves()})
		}
	}
	s.Quorum.Known, s.Quorum.Leader = answering, c.leader
	p := Partition{Topic: "orders", Leader: NoLeader, Replicas: c.topic, MinInSync: c.minInSync}
	for _, id := range c.topic {
		if c.inSync[id] {
			p.InSync, p.Leader = append(p.InSync, id), id
		}
	}
	s.Partitions = Partitions{Known: brokers, List: []Partition{p}}
	return s
}

// obey does what the decision says, as the controller does: record, then delete.
func (c *cluster) obey(d Decision) {
	if d.Settled {
		c.disruption = nil
	}
	if d.Act == nil {
		return
	}
	c.disruption = &Disruption{Node: d.Act.Node, UID: d.Act.UID, Since: now}
	c.plant(d.Act.Node).become(Terminating, d.Act.UID)
}

func (c *cluster) done() bool {
	return !slices.ContainsFunc(c.plants, func(p plant) bool {
		return len(p.node.Reasons) > 0 || p.node.Pod.State != Ready
	})
}

// beginnings are the ways in which a node may enter the play. A node that cannot
// work has something new to load: without a fix no rollout can help it.
func beginnings() []plant {
	fix := []Reason{{Code: ConfigChanged}}
	return []plant{
		{good: true, node: Node{Pod: Pod{State: Ready, UID: "u"}}},
		{good: true, node: Node{Pod: Pod{State: Ready, UID: "u"}, Reasons: fix}},
		{good: true, node: Node{Pod: Pod{State: Unready, UID: "u"}}},
		{good: true, node: Node{Pod: Pod{State: Unready, UID: "u"}, Reasons: fix}},
		{node: Node{Pod: Pod{State: Stuck, UID: "u", StuckReason: "CrashLoopBackOff"}, Reasons: fix}},
		{node: Node{Pod: Pod{State: Unready, UID: "u"}, Reasons: fix}},
		{node: Node{Pod: Pod{State: Missing}}},
		{node: Node{Pod: Pod{State: Terminating, UID: "u"}}},
	}
}

// start sets up one beginning of the play.
func (w world) start(picks []int, leader NodeID, inSync int) *cluster {
	c := &cluster{leader: leader, inSync: map[NodeID]bool{}, topic: w.partitions[0].Replicas, minInSync: w.partitions[0].MinInSync}
	for i, id := range w.ids() {
		p := beginnings()[picks[i]]
		p.node = w.node(id, face{pod: p.node.Pod, reasons: p.node.Reasons})
		c.plants = append(c.plants, p)
	}
	for i, id := range c.topic {
		if inSync>>i&1 == 1 {
			c.inSync[id] = true
		}
	}
	c.elect(c.quorate())
	return c
}

func liveWorlds() []world {
	five := world{
		name: "three controllers and two brokers", controllers: []NodeID{0, 1, 2}, brokers: []NodeID{3, 4},
		partitions: []Partition{{Replicas: []NodeID{3, 4}, MinInSync: 1}}, twins: true,
	}
	return append(worlds(), five)
}

func TestEveryReasonIsServedIfPodsComeBack(t *testing.T) {
	t.Parallel()
	for _, w := range liveWorlds() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			plays, steps := 0, 0
			for picks := range product(len(beginnings()), len(w.ids())) {
				if !*wide && w.twins && !sorted(picks, len(w.controllers)) {
					continue
				}
				for _, leader := range w.controllers {
					for inSync := 1; inSync < 1<<len(w.partitions[0].Replicas); inSync++ {
						c := w.start(picks, leader, inSync)
						if wrong := c.play(); wrong != "" {
							t.Fatalf("from %v, leader %d, in sync %b: %s", picks, leader, inSync, wrong)
						}
						plays, steps = plays+1, steps+c.tick
					}
				}
			}
			t.Logf("%d plays, %d minutes in all", plays, steps)
		})
	}
}

// sorted picks one of all tuples that differ only by who among the controllers,
// or who among the brokers behind them, looks like what.
func sorted(picks []int, controllers int) bool {
	return slices.IsSorted(picks[:controllers]) && slices.IsSorted(picks[controllers:])
}

// play runs the cluster until everything is served, for at most three hours, and
// returns what went wrong.
func (c *cluster) play() string {
	var (
		s Snapshot
		d Decision
	)
	for range 180 {
		if c.done() {
			return ""
		}
		s = c.observe()
		d = Decide(s)
		for _, rule := range invariants() {
			if wrong := rule.wrong(&s, d); wrong != "" {
				return fmt.Sprintf("minute %d: %s: %s\n%s", c.tick, rule.name, wrong, describe(s))
			}
		}
		c.obey(d)
		c.elapse()
	}
	return fmt.Sprintf("not done after %d minutes\n%s%+v\n", c.tick, describe(s), d)
}
