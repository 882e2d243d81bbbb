package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/mtls"
)

// metadataTopic is the topic of the one partition that KRaft replicates.
const metadataTopic = "__cluster_metadata"

// quorumVersion of DescribeQuorum carries fetch and caught-up times; Kafka
// answers it since 3.3.
const quorumVersion = 1

// Quorum asks the controllers themselves, until one answers as the leader.
func (k *Kafka) Quorum(ctx context.Context) (Quorum, error) {
	ctx, cancel := k.within(ctx)
	defer cancel()
	if len(k.options.Controllers) == 0 {
		resp, err := quorumRequest().RequestWith(ctx, k.brokers)
		if err != nil {
			return Quorum{}, k.failed("describing the quorum", err)
		}
		quorum, err := readQuorum(resp)
		if err != nil {
			return Quorum{}, k.failed("describing the quorum", err)
		}
		return quorum, nil
	}
	failures := make([]error, 0, len(k.options.Controllers))
	for _, address := range k.options.Controllers {
		quorum, err := k.quorumOf(ctx, address)
		if err == nil {
			return quorum, nil
		}
		failures = append(failures, err)
	}
	return Quorum{}, &QuorumError{Failures: mostTelling(failures)}
}

// mostTelling keeps the errors that say more than that a controller follows, if
// there are any.
func mostTelling(failures []error) []error {
	telling := slices.DeleteFunc(slices.Clone(failures), func(err error) bool {
		return errors.Is(err, kerr.NotLeaderForPartition)
	})
	if len(telling) == 0 {
		return failures
	}
	return telling
}

// quorumOf asks one controller. It does so below the Kafka client: a controller
// answers no metadata request, with which a client would begin.
func (k *Kafka) quorumOf(ctx context.Context, address string) (Quorum, error) {
	conn, err := k.connect(ctx, address, k.options.controllerLimit())
	if err != nil {
		return Quorum{}, err
	}
	session := wire.New(conn, clientID)
	answer, err := session.Request(ctx, quorumRequest())
	err = errors.Join(err, session.Close())
	if err != nil {
		return Quorum{}, mtls.Classify(address, err)
	}
	resp, ok := answer.(*kmsg.DescribeQuorumResponse)
	if !ok {
		return Quorum{}, errNoPartition
	}
	quorum, err := readQuorum(resp)
	if kafka, ok := errors.AsType[*kerr.Error](err); ok && isRefusal(kafka) {
		return Quorum{}, &RefusedError{Address: address, Err: err}
	}
	return quorum, err
}

func quorumRequest() *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Version = quorumVersion
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = metadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	return req
}

func readQuorum(resp *kmsg.DescribeQuorumResponse) (Quorum, error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return Quorum{}, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return Quorum{}, errNoPartition
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return Quorum{}, err
	}
	end := leaderEnd(p)
	return Quorum{
		LeaderID:      p.LeaderID,
		Epoch:         p.LeaderEpoch,
		HighWatermark: p.HighWatermark,
		Voters:        replicas(p.CurrentVoters, end),
		Observers:     replicas(p.Observers, end),
	}, nil
}

func leaderEnd(p kmsg.DescribeQuorumResponseTopicPartition) int64 {
	for _, voter := range p.CurrentVoters {
		if voter.ReplicaID == p.LeaderID {
			return voter.LogEndOffset
		}
	}
	return p.HighWatermark
}

func replicas(states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, end int64) []Replica {
	list := make([]Replica, 0, len(states))
	for _, s := range states {
		list = append(list, Replica{
			ID:           s.ReplicaID,
			LogEndOffset: s.LogEndOffset,
			Lag:          max(0, end-s.LogEndOffset),
			LastFetch:    milliseconds(s.LastFetchTimestamp),
			LastCaughtUp: milliseconds(s.LastCaughtUpTimestamp),
		})
	}
	slices.SortFunc(list, func(a, b Replica) int { return int(a.ID) - int(b.ID) })
	return list
}

// milliseconds reads Kafka's time stamps, in which -1 is none.
func milliseconds(timestamp int64) time.Time {
	if timestamp < 0 {
		return time.Time{}
	}
	return time.UnixMilli(timestamp).UTC()
}
