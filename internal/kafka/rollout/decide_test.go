package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// change alters a healthy cluster into the one a test is about.
type change func(*Snapshot)

// healthy is a cluster of dual-role nodes 0 to n-1, led by node 0, with one topic
// on all of them, nothing to do.
func healthy(n int, changes ...change) Snapshot {
	s := Snapshot{Now: now, Quorum: Quorum{Known: true}, Partitions: Partitions{Known: true}}
	orders := Partition{Topic: "orders", MinInSync: max(1, n-1)}
	for i := range n {
		id := NodeID(i)
		s.Nodes = append(s.Nodes, Node{
			ID: id, PodName: fmt.Sprintf("my-%d", i), Pool: "my", Controller: true, Broker: true,
			Pod: Pod{State: Ready, UID: UID(fmt.Sprintf("uid-%d", i))}, Server: ServerRunning,
		})
		s.Quorum.Voters = append(s.Quorum.Voters, Voter{ID: id, CaughtUp: true})
		orders.Replicas = append(orders.Replicas, id)
		orders.InSync = append(orders.InSync, id)
	}
	s.Partitions.List = []Partition{orders}
	for _, c := range changes {
		c(&s)
	}
	return s
}

func reason(code ReasonCode, ids ...int) change {
	return func(s *Snapshot) {
		for _, id := range ids {
			s.Nodes[id].Reasons = append(s.Nodes[id].Reasons, Reason{Code: code})
		}
	}
}

func pod(id int, state PodState, server ServerState) change {
	return func(s *Snapshot) {
		s.Nodes[id].Pod.State, s.Nodes[id].Server = state, server
		s.Nodes[id].Pod.Since = now.Add(-time.Hour)
		if state == Stuck {
			s.Nodes[id].Pod.StuckReason = "CrashLoopBackOff"
		}
	}
}

func also(changes ...change) []change { return changes }

func TestDecide(t *testing.T) {
	t.Parallel()
	down := also(pod(0, Unready, ServerStarting), pod(1, Stuck, ServerUnknown), pod(2, Unready, ServerStarting),
		func(s *Snapshot) { s.Quorum, s.Partitions = Quorum{}, Partitions{} })
	tests := map[string]struct {
		cluster  Snapshot
		act      string
		blockers []string
		settled  bool
	}{
		"nothing is done to a cluster that is as it should be": {cluster: healthy(3)},
		"the active controller goes last": {
			cluster:  healthy(3, reason(CertificatesChanged, 0, 1, 2)),
			act:      "Restart my-1 uid-1 [KafkaCertificatesChanged]",
			blockers: []string{"0 ActiveControllerLast: pod my-0 runs the active controller and goes after my-1 (and 1 more)"},
		},
		"controllers go before brokers": {
			cluster: healthy(4, reason(VersionChanged, 1, 3), func(s *Snapshot) {
				s.Nodes[3].Controller = false
				s.Quorum.Voters = s.Quorum.Voters[:3]
			}),
			act:      "Restart my-1 uid-1 [KafkaVersionChanged]",
			blockers: []string{"3 ControllersFirst: controller my-1 is restarted before brokers"},
		},
		"a pod that works waits for one that is stuck": {
			cluster: healthy(3, reason(ConfigChanged, 1), pod(2, Stuck, ServerUnknown)),
			blockers: []string{
				"1 OthersReady: pod my-2 is stuck (CrashLoopBackOff); it is replaced as soon as its specification, configuration or certificates change",
				"1 QuorumKept: without my-1 only 1 of 3 voters would be caught up, but 2 are needed: check the logs of the voters that do not catch up",
				"1 MinInSyncKept: without my-1 too few in-sync replicas (min.insync.replicas) would be left for topic orders partition 0: check the logs of the brokers that have the other replicas",
			},
		},
		"a stuck pod is replaced when its own fix arrives": {
			cluster: healthy(3, reason(ConfigChanged, 2), pod(2, Stuck, ServerUnknown)),
			act:     "Restart my-2 uid-2 [ConfigChangeRequiresRestart PodStuck] recovery",
		},
		"a broker that recovers its logs is not disturbed": {
			cluster:  healthy(3, reason(ConfigChanged, 2), pod(2, Unready, ServerRecovering)),
			blockers: []string{"2 NotStarting: the broker in pod my-2 is recovering its logs"},
		},
		"under-replicated topics name themselves": {
			cluster: healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) { s.Partitions.List[0].InSync = []NodeID{0, 1} }),
			blockers: []string{
				"1 MinInSyncKept: without my-1 too few in-sync replicas (min.insync.replicas) would be left for topic orders partition 0: check the logs of the brokers that have the other replicas",
			},
		},
		"a partition that can never spare a replica does not block for ever": {
			cluster: healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) { s.Partitions.List[0].MinInSync = 3 }),
			act:     "Restart my-1 uid-1 [ConfigChangeRequiresRestart]",
		},
		"a single node may always go": {
			cluster: healthy(1, reason(ConfigChanged, 0)),
			act:     "Restart my-0 uid-0 [ConfigChangeRequiresRestart]",
		},
		"of two voters the other one must be caught up": {
			cluster:  healthy(2, reason(ConfigChanged, 0), func(s *Snapshot) { s.Quorum.Voters[1].CaughtUp = false }),
			blockers: []string{"0 QuorumKept: without my-0 only 0 of 2 voters would be caught up, but 1 are needed: check the logs of the voters that do not catch up"},
		},
		"what nobody knows keeps the gate shut": {
			cluster: healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) { s.Quorum, s.Partitions = Quorum{}, Partitions{} }),
			blockers: []string{
				"1 QuorumKept: no controller reports the state of the quorum: check the logs of the controllers, and what keeps the operator from reaching port 9090 of their pods",
				"1 MinInSyncKept: no broker reports which partitions are in sync: check the logs of the brokers, and what keeps the operator from reaching port 9091 of their pods",
			},
		},
		"a silent agent keeps the gate shut": {
			cluster:  healthy(3, reason(ConfigChanged, 1), pod(2, Ready, ServerUnknown)),
			blockers: []string{"1 EvidenceKnown: the agent of pod my-2 does not answer, so the state of its server is unknown: check what keeps the operator from reaching port 8443 of the pod"},
		},
		"a node that is to be removed may be silent": {
			cluster: healthy(4, pod(3, Ready, ServerUnknown), func(s *Snapshot) {
				s.Nodes[3].Removal, s.Nodes[3].Controller = RemoveWhenEmpty, false
				s.Quorum.Voters, s.Partitions.List = s.Quorum.Voters[:3], nil
			}),
			act: "Remove my-3 uid-3 []",
		},
		"a cluster that is down altogether is repaired one pod at a time": {
			cluster: healthy(3, append(down, reason(ConfigChanged, 0, 1, 2))...),
			act:     "Restart my-1 uid-1 [ConfigChangeRequiresRestart PodStuck] recovery",
		},
		"the repair goes on although the first pod cannot become ready alone": {
			cluster: healthy(3, append(down, reason(ConfigChanged, 0, 2), func(s *Snapshot) {
				s.Disruption = &Disruption{Node: 1, UID: "uid-before", Since: now}
			})...),
			act: "Restart my-0 uid-0 [ConfigChangeRequiresRestart] recovery",
		},
		"a restart for several reasons is one restart": {
			cluster: healthy(3, reason(ConfigChanged, 1), reason(CertificatesChanged, 1)),
			act:     "Restart my-1 uid-1 [ConfigChangeRequiresRestart KafkaCertificatesChanged]",
		},
		"the pod after a restart waits until the last one has caught up": {
			cluster: healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) {
				s.Disruption = &Disruption{Node: 2, UID: "uid-before", Since: now}
				s.Partitions.List[0] = Partition{Topic: "orders", Replicas: []NodeID{0, 1, 2}, InSync: []NodeID{0, 1}, MinInSync: 1}
			}),
			blockers: []string{"1 OneAtATime: pod my-2 was restarted and has not caught up with topic orders partition 0"},
		},
		"a restart that has caught up is forgotten": {
			cluster: healthy(3, func(s *Snapshot) { s.Disruption = &Disruption{Node: 2, UID: "uid-before", Since: now} }),
			settled: true,
		},
		"a recorded restart that was not done is done": {
			cluster:  healthy(3, reason(ConfigChanged, 1, 2), func(s *Snapshot) { s.Disruption = &Disruption{Node: 2, UID: "uid-2", Since: now} }),
			act:      "Restart my-2 uid-2 [ConfigChangeRequiresRestart]",
			blockers: []string{"1 OneAtATime: pod my-2 is to be restarted first"},
		},
		"a recorded restart that nobody wants any more is forgotten first": {
			cluster:  healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) { s.Disruption = &Disruption{Node: 2, UID: "uid-2", Since: now} }),
			blockers: []string{"1 OneAtATime: pod my-2 is to be restarted first"},
			settled:  true,
		},
		"a node that holds replicas is not removed and does not hold up the others": {
			cluster: healthy(3, reason(ConfigChanged, 1), func(s *Snapshot) {
				s.Nodes[2].Removal = RemoveWhenEmpty
				s.Nodes[2].Controller = false
				s.Quorum.Voters = s.Quorum.Voters[:2]
			}),
			act:      "Restart my-1 uid-1 [ConfigChangeRequiresRestart]",
			blockers: []string{"2 HoldsNoReplicas: pod my-2 is not removed while it holds replicas of topic orders partition 0; move them to other brokers"},
		},
		"an empty node is removed": {
			cluster: healthy(3, func(s *Snapshot) {
				s.Nodes[2].Removal, s.Nodes[2].Controller = RemoveWhenEmpty, false
				s.Quorum.Voters, s.Partitions.List[0].Replicas = s.Quorum.Voters[:2], []NodeID{0, 1}
			}),
			act: "Remove my-2 uid-2 []",
		},
		"a terminating pod is a disruption, whoever deleted it": {
			cluster: healthy(3, reason(ConfigChanged, 1), pod(2, Terminating, ServerUnknown), func(s *Snapshot) { s.Partitions.List[0].MinInSync = 1 }),
			blockers: []string{
				"1 OthersPresent: pod my-2 is being deleted",
				"1 QuorumKept: without my-1 only 1 of 3 voters would be caught up, but 2 are needed: check the logs of the voters that do not catch up",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := Decide(test.cluster)
			if diff := cmp.Diff(test.act, sentence(d.Act)); diff != "" {
				t.Errorf("act (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.blockers, sentences(d.Blockers)); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
			if d.Settled != test.settled {
				t.Errorf("settled = %v", d.Settled)
			}
		})
	}
}

func sentence(a *Act) string {
	if a == nil {
		return ""
	}
	codes := make([]ReasonCode, 0, len(a.Reasons))
	for _, r := range a.Reasons {
		codes = append(codes, r.Code)
	}
	out := fmt.Sprintf("%s %s %s %v", a.Kind, a.PodName, a.UID, codes)
	if a.Recovery {
		out += " recovery"
	}
	return out
}

func sentences(blockers []Blocker) []string {
	var out []string
	for _, b := range blockers {
		out = append(out, fmt.Sprintf("%d %s: %s", b.Node, b.Gate, b.Message))
	}
	return out
}

func TestDecideDoesNotChangeItsSnapshot(t *testing.T) {
	t.Parallel()
	build := func() Snapshot { return healthy(3, reason(ConfigChanged, 0, 2, 1), reason(CertificatesChanged, 1)) }
	s := build()
	first := Decide(s)
	if diff := cmp.Diff(build(), s); diff != "" {
		t.Errorf("snapshot changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first, Decide(s)); diff != "" {
		t.Errorf("second decision differs (-first +second):\n%s", diff)
	}
}

// BenchmarkDecide is a cluster of 300 nodes, five of them controllers, with ten
// thousand partitions, where every node waits for its restart.
func BenchmarkDecide(b *testing.B) {
	s := healthy(300)
	s.Quorum.Voters, s.Partitions.List = s.Quorum.Voters[:5], nil
	for i := range s.Nodes {
		s.Nodes[i].Controller = i < 5
		s.Nodes[i].Reasons = []Reason{{Code: CertificatesChanged}}
	}
	for i := range 10000 {
		p := Partition{Topic: fmt.Sprintf("topic-%d", i/10), Index: int32(i % 10), Leader: NodeID(i % 295), MinInSync: 2}
		for r := range 3 {
			p.Replicas = append(p.Replicas, NodeID(5+(i+r)%295))
		}
		p.InSync = p.Replicas
		s.Partitions.List = append(s.Partitions.List, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := Decide(s); d.Act == nil {
			b.Fatal("nobody may go")
		}
	}
}
