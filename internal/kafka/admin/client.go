package admin

import (
	"context"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
)

// Client is everything the operator has to do with a running cluster. Every
// method takes its own deadline from the client's options when the context has
// none that is earlier.
//
// Errors are UnreachableError when nobody answered in time, UntrustedError when
// somebody answered and could not prove to belong to the cluster, RefusedError
// when Kafka does not accept or does not authorize the operator, and otherwise
// wrap *kerr.Error, Kafka's own.
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

// The errors of a connection; see Client.
type (
	// UnreachableError says that nobody answered in time.
	UnreachableError = mtls.UnreachableError
	// UntrustedError says that the answering side is not who it should be.
	UntrustedError = mtls.UntrustedError
	// RefusedError says that the answering side does not accept the operator.
	RefusedError = mtls.RefusedError
)
