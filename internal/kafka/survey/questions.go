package survey

import (
	"context"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// quorumFetchTimeout is the default of controller.quorum.fetch.timeout.ms: how
// far behind the leader a voter may be and still count as caught up.
const quorumFetchTimeout = 2 * time.Second

// What questions are about whose failure matters by itself.
const (
	AboutMetadata = "the metadata version"
	AboutTopics   = "the topics"
)

// Quorum asks who votes, and how far behind the leader each voter is.
func Quorum() Question {
	return Question{"the quorum", func(ctx context.Context, kafka admin.Client) (func(*Answers), error) {
		quorum, err := kafka.Quorum(ctx)
		return func(a *Answers) { a.Quorum = quorumOf(quorum) }, err
	}}
}

// Partitions asks which replicas of each partition are in sync.
func Partitions() Question {
	return Question{"the partitions", func(ctx context.Context, kafka admin.Client) (func(*Answers), error) {
		partitions, err := kafka.Partitions(ctx)
		return func(a *Answers) { a.Partitions = partitionsOf(partitions) }, err
	}}
}

// Metadata asks which version of metadata all nodes have agreed on.
func Metadata() Question {
	return Question{AboutMetadata, func(ctx context.Context, kafka admin.Client) (func(*Answers), error) {
		features, err := kafka.Features(ctx)
		return func(a *Answers) { a.Metadata = release.MetadataVersionOf(features.MetadataVersion) }, err
	}}
}

// Topics asks for the configuration of each topic.
func Topics() Question {
	return Question{AboutTopics, func(ctx context.Context, kafka admin.Client) (func(*Answers), error) {
		held, err := kafka.DescribeTopics(ctx)
		return func(a *Answers) { a.Topics = held }, err
	}}
}

// Server asks what the server in a pod is doing, by its agent.
func Server(pod string, ask func(context.Context) (contract.BrokerState, error)) Question {
	return Question{"server " + pod, func(ctx context.Context, _ admin.Client) (func(*Answers), error) {
		said, err := ask(ctx)
		return func(a *Answers) { a.Servers[pod] = serverOf(said) }, err
	}}
}

func serverOf(state contract.BrokerState) rollout.ServerState {
	switch state.State {
	case contract.StateRecovery:
		return rollout.ServerRecovering
	case contract.StateRunning:
		return rollout.ServerRunning
	case contract.StateUnknown:
		return rollout.ServerUnknown
	default:
		return rollout.ServerStarting
	}
}

func quorumOf(q admin.Quorum) rollout.Quorum {
	quorum := rollout.Quorum{Known: true, Leader: rollout.NodeID(q.LeaderID)}
	for _, voter := range q.Voters {
		quorum.Voters = append(quorum.Voters, rollout.Voter{
			ID: rollout.NodeID(voter.ID), CaughtUp: q.CaughtUp(voter.ID, quorumFetchTimeout),
		})
	}
	return quorum
}

func partitionsOf(list []admin.Partition) rollout.Partitions {
	partitions := rollout.Partitions{Known: true, List: make([]rollout.Partition, 0, len(list))}
	for i := range list {
		partitions.List = append(partitions.List, rollout.Partition{
			Topic: list[i].Topic, Index: list[i].Partition, Leader: rollout.NodeID(list[i].Leader),
			Replicas: nodeIDs(list[i].Replicas), InSync: nodeIDs(list[i].InSync), MinInSync: list[i].MinInSync,
		})
	}
	return partitions
}

func nodeIDs(ids []int32) []rollout.NodeID {
	out := make([]rollout.NodeID, 0, len(ids))
	for _, id := range ids {
		out = append(out, rollout.NodeID(id))
	}
	return out
}
