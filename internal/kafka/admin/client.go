package admin

import (
	"context"

	"github.com/keyturn/keyturn/internal/kafka/topics"
	"github.com/keyturn/keyturn/internal/mtls"
)

// Client is everything the operator has to do with a running cluster. Every
// method takes its own deadline from the client's options when the context has
// none that is earlier.
//
// Errors are UnreachableError when no node answered in time, and UntrustedError when the
// answering side could not prove that it belongs to the cluster. They are RefusedError when
// Kafka does not accept or authorize the operator, and otherwise wrap Kafka's *kerr.Error.
type Client interface {
	Observer
	Actor
	// Close ends all connections.
	Close()
}

// Observer asks and changes nothing.
type Observer interface {
	// Quorum asks the leader of the metadata quorum. A QuorumError says that no
	// controller leads.
	Quorum(ctx context.Context) (Quorum, error)
	// Partitions lists the partitions of all topics, internal ones included,
	// sorted by topic and partition.
	Partitions(ctx context.Context) ([]Partition, error)
	// Cluster tells the cluster id and the registered brokers.
	Cluster(ctx context.Context) (Cluster, error)
	// Features tells what is finalized.
	Features(ctx context.Context) (Features, error)
	TopicsObserver
}

// Actor changes the cluster.
type Actor interface {
	// UnregisterBroker makes the cluster forget a broker that is gone. A broker
	// that is not registered is an UnknownBrokerError.
	UnregisterBroker(ctx context.Context, id int32) error
	// UpdateMetadataVersion raises metadata.version to the level. Raising it to
	// what it already is changes nothing and is no error. It never lowers it.
	UpdateMetadataVersion(ctx context.Context, level int16) error
}

// TopicsClient reads and changes topics. The errors are those of Client; what Kafka does not accept is a RejectedError, and a topic
// that it does not have an UnknownTopicError.
type TopicsClient interface {
	TopicsActor
	TopicsObserver
}

// TopicsObserver asks about topics and changes nothing.
type TopicsObserver interface {
	// DescribeTopics tells what Kafka holds of all topics by their names, internal ones included.
	DescribeTopics(ctx context.Context) (map[string]topics.Topic, error)
}

// TopicsActor changes topics.
type TopicsActor interface {
	// CreateTopics creates topics, and tells of each by its name what came of it. A topic that it says nothing of was not
	// asked for: the error says why.
	CreateTopics(ctx context.Context, wanted []topics.New) (map[string]Creation, error)
	// CreatePartitions makes a topic have more partitions.
	CreatePartitions(ctx context.Context, topic string, total int32) error
	// AlterConfig changes all properties of a topic or none. Where nothing is to be changed, nothing is sent.
	AlterConfig(ctx context.Context, topic string, change topics.ConfigChange) error
	// DeleteTopic deletes the topic with this id and no other one of its name. One that does not exist is no error.
	DeleteTopic(ctx context.Context, id topics.ID) error
}

// Creation is what came of one topic that was to be created.
type Creation struct {
	// Topic is what Kafka created, when Err is nil.
	Topic topics.Topic
	Err   error
}

// The errors of a connection; see Client.
type (
	// UnreachableError says that no node answered in time.
	UnreachableError = mtls.UnreachableError
	// UntrustedError says that the answering side is not who it should be.
	UntrustedError = mtls.UntrustedError
	// RefusedError says that the answering side does not accept the operator.
	RefusedError = mtls.RefusedError
)
