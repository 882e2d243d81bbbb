package admin

import (
	"slices"
	"time"
)

// Quorum is the Raft quorum of the cluster's metadata, as its leader sees it.
type Quorum struct {
	LeaderID      int32
	Epoch         int32
	HighWatermark int64
	// Voters and Observers are sorted by id. The leader is among the voters.
	Voters, Observers []Replica
}

// Replica is one node's copy of the metadata log.
type Replica struct {
	ID int32
	// LogEndOffset is the end of the copy; Lag how far that is behind the leader.
	LogEndOffset, Lag int64
	// LastFetch and LastCaughtUp are times by the leader's clock; zero when the
	// leader does not know. The leader's own are the time of the answer.
	LastFetch, LastCaughtUp time.Time
}

// Voter returns the voter with the id.
func (q Quorum) Voter(id int32) (Replica, bool) {
	i := slices.IndexFunc(q.Voters, func(r Replica) bool { return r.ID == id })
	if i < 0 {
		return Replica{}, false
	}
	return q.Voters[i], true
}

// CaughtUp reports whether the voter is the leader, or was level with the leader
// less than within ago, by the leader's clock.
func (q Quorum) CaughtUp(id int32, within time.Duration) bool {
	if id == q.LeaderID {
		return true
	}
	leader, known := q.Voter(q.LeaderID)
	voter, found := q.Voter(id)
	if !known || !found || voter.LastCaughtUp.IsZero() {
		return false
	}
	return leader.LastCaughtUp.Sub(voter.LastCaughtUp) < within
}

// Partition is one partition and where its copies are.
type Partition struct {
	Topic     string
	Partition int32
	// Leader is the id of the leading broker, or -1 when there is none.
	Leader int32
	// Replicas and InSync are broker ids, sorted.
	Replicas, InSync []int32
	// MinInSync is the effective min.insync.replicas of the topic.
	MinInSync int
}

// Topics returns the names of the partitions' topics, sorted, each once.
func Topics(partitions []Partition) []string {
	names := make([]string, 0, len(partitions))
	for _, p := range partitions {
		names = append(names, p.Topic)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Cluster is who belongs to the cluster.
type Cluster struct {
	ID string
	// Brokers are all registered brokers, fenced ones included, sorted by id.
	Brokers []Broker
}

// Broker is one registration.
type Broker struct {
	ID   int32
	Host string
	Port int32
	// Fenced brokers are registered and take no part: not started, not caught up
	// or gone.
	Fenced bool
}

// Features are the finalized features of the cluster.
type Features struct {
	// MetadataVersion is the level of metadata.version; its name is
	// release.MetadataVersionOf's.
	MetadataVersion int16
	// Finalized holds every finalized feature with its level, metadata.version
	// included.
	Finalized map[string]int16
}
