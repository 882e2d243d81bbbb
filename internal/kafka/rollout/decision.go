package rollout

import (
	"maps"
	"slices"
	"time"
)

// Decision is what may be done now.
type Decision struct {
	// Act is the one disruption that may happen, nil when none may.
	Act *Act
	// Settled is true when the recorded intent is over: the pod came back and
	// caught up, the node is gone, or the act no longer is what should be done.
	// The record is erased, or replaced by that of Act.
	Settled bool
	// Blockers are all gates that refuse, by node in the order in which the
	// nodes would be taken, and per node in the order of the gates.
	Blockers []Blocker
}

// ActKind says what is done to a pod.
type ActKind string

// The kinds of acts. Both delete the pod; after a removal it is not recreated.
const (
	Restart ActKind = "Restart"
	Remove  ActKind = "Remove"
)

// Act is the disruption of one pod. It must be recorded as a Disruption before
// it is done, and done with UID as a precondition.
type Act struct {
	Kind    ActKind
	Node    NodeID
	PodName string
	UID     UID
	// Reasons is sorted; it is empty only for a removal.
	Reasons []Reason
	// Recovery is true when the pod did not work, so that its restart costs
	// nothing and repairs perhaps; some gates do not apply then.
	Recovery bool
}

// Blocker says which gate refuses to disrupt which node, and what it waits for.
type Blocker struct {
	Gate GateName
	// Node is the node that is refused.
	Node NodeID
	// Who is what it waits for: a pod, a topic's partition, the quorum.
	Who string
	// Message is one sentence for people, stable between passes.
	Message string
	// Since is when that state began; zero when that is unknown.
	Since time.Time
}

// AwaitsPods reports whether everything that is still to be done waits at least for a pod to
// terminate or to be created.
func (d Decision) AwaitsPods() bool {
	if d.Act != nil || d.Settled || len(d.Blockers) == 0 {
		return false
	}
	awaits := map[NodeID]bool{}
	for _, b := range d.Blockers {
		awaits[b.Node] = awaits[b.Node] || b.Gate == GatePodPresent || b.Gate == GateOthersPresent
	}
	return !slices.Contains(slices.Collect(maps.Values(awaits)), false)
}

// GateName names a gate in conditions and metrics.
type GateName string

// The gates, in the order in which they are asked.
const (
	// GatePodPresent: the node's own pod exists and is not being deleted.
	GatePodPresent GateName = "PodPresent"
	// GateOneAtATime: the last disruption is over.
	GateOneAtATime GateName = "OneAtATime"
	// GateOthersPresent: every other pod exists and is not being deleted.
	GateOthersPresent GateName = "OthersPresent"
	// GateOthersReady: every other pod is ready.
	GateOthersReady GateName = "OthersReady"
	// GateEvidence: the agents answered.
	GateEvidence GateName = "EvidenceKnown"
	// GateNotStarting: the pod is neither recovering its logs nor in the first
	// minutes of a start whose agent does not answer.
	GateNotStarting GateName = "NotStarting"
	// GateControllersFirst: no controller waits for its restart.
	GateControllersFirst GateName = "ControllersFirst"
	// GateLeaderLast: no other controller waits while this one leads.
	GateLeaderLast GateName = "ActiveControllerLast"
	// GateQuorum: the controllers keep their majority without this node.
	GateQuorum GateName = "QuorumKept"
	// GatePartitions: every partition keeps min.insync.replicas without it.
	GatePartitions GateName = "MinInSyncKept"
	// GateEmpty: a node that is removed holds no replica any more.
	GateEmpty GateName = "HoldsNoReplicas"
)
