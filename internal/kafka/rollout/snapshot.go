package rollout

import "time"

// NodeID is Kafka's node.id.
type NodeID int32

// NoLeader is the leader of a quorum or partition that has none.
const NoLeader NodeID = -1

// UID is the identity of one pod object; a pod that is made again under the
// same name has another one.
type UID string

// Snapshot is all that a decision may depend on. It must have been read freshly,
// after the intent of the last act was recorded.
type Snapshot struct {
	Now        time.Time
	Nodes      []Node
	Quorum     Quorum
	Partitions Partitions
	// Disruption is the recorded intent of the last act, nil when there is none.
	Disruption *Disruption
}

// Node is one Kafka node that has, or should have, a pod.
type Node struct {
	ID NodeID
	// PodName is the name of its pod, existing or not.
	PodName string
	Pool    string
	// Controller and Broker are the roles; a node has at least one.
	Controller bool
	Broker     bool
	Pod        Pod
	// Server is what the agent in the pod last said about the server process.
	Server ServerState
	// Reasons to restart it; empty when the pod is as it should be.
	Reasons []Reason
	// Removal asks for the node to be taken away instead of restarted.
	Removal Removal
}

// PodState is the state of a pod as far as a rollout cares.
type PodState uint8

// The states of a pod. Each pod is in exactly one of them: a pod with a deletion
// timestamp is Terminating whatever else it is, and a pod that waits in a state
// it does not leave by itself is Stuck rather than Unready.
const (
	// Missing: there is no pod of that name; the pod set will create it.
	Missing PodState = iota
	// Terminating: the pod is being deleted. It counts as gone for what the
	// cluster can do without it, and as a disruption that is in progress.
	Terminating
	// Stuck: see Pod.StuckReason.
	Stuck
	// Unready: the pod exists, is not stuck, and is not ready.
	Unready
	// Ready: the pod is ready.
	Ready
)

// Pod is the observed pod of a node.
type Pod struct {
	State PodState
	// UID is empty for a missing pod.
	UID UID
	// StuckReason is Kubernetes' word for it: CrashLoopBackOff,
	// ImagePullBackOff, InvalidImageName, Unschedulable and the like.
	StuckReason string
	// Since is when the pod entered State; zero when that is unknown.
	Since time.Time
}

// ServerState is what the agent reports about the server process it runs.
type ServerState uint8

// The states of a server process.
const (
	// ServerUnknown: the agent did not answer. No evidence is not good news.
	ServerUnknown ServerState = iota
	// ServerStarting: the process has not finished its start.
	ServerStarting
	// ServerRecovering: the broker reads its logs after an unclean end. Killing
	// it starts that work again from the beginning.
	ServerRecovering
	// ServerRunning: the process serves.
	ServerRunning
)

// Removal says whether a node shall go, and on what condition.
type Removal uint8

// The kinds of removal.
const (
	// Keep: the node stays.
	Keep Removal = iota
	// RemoveWhenEmpty: the node goes once no partition has a replica on it.
	RemoveWhenEmpty
	// RemoveAnyway: the node goes even with replicas on it, because a person
	// said so (strimzi.io/skip-broker-scaledown-check).
	RemoveAnyway
)

// Quorum is the KRaft quorum as a controller described it.
type Quorum struct {
	// Known is false when no controller answered. A controller that answers
	// that there is no leader makes the quorum known, with NoLeader.
	Known  bool
	Leader NodeID
	Voters []Voter
}

// Voter is one member of the quorum.
type Voter struct {
	ID NodeID
	// CaughtUp is true for the leader, and for a voter whose last caught-up
	// time is less than controller.quorum.fetch.timeout.ms behind the leader's.
	CaughtUp bool
}

// Partitions is the state of all partitions of all topics.
type Partitions struct {
	// Known is false when they could not be read completely.
	Known bool
	List  []Partition
}

// Partition is one partition of a topic.
type Partition struct {
	Topic string
	Index int32
	// Leader is NoLeader for a partition that is offline.
	Leader   NodeID
	Replicas []NodeID
	InSync   []NodeID
	// MinInSync is the effective min.insync.replicas of the topic.
	MinInSync int
}

// Disruption is the intent that is recorded before a pod is disrupted. It stays
// until a decision says that it is over.
type Disruption struct {
	Node NodeID
	// UID is the pod that was to be deleted.
	UID   UID
	Since time.Time
}

// StartGrace is how long a pod that is not ready and does not answer is left
// alone, because it may be starting: Strimzi's operation timeout, after which it no
// longer waits for a pod to become ready.
const StartGrace = 5 * time.Minute
