package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
)

// clientID is how the operator appears in Kafka's request log and quotas.
const clientID = "keyturn-operator"

// Bounds of answers that describe no partitions, in bytes.
const (
	// shortAnswer is enough for what says the same of every cluster.
	shortAnswer = 16 << 10
	// brokerBytes and replicaBytes are more than a node takes where brokers are listed,
	// with the longest of names, and where copies of the metadata are. As many nodes
	// again may be listed that are gone.
	brokerBytes, replicaBytes = 2 * 320, 2 * 64
	// defaultPartitionBytes are enough for a quarter of a million partitions.
	defaultPartitionBytes = 64 << 20
)

var (
	errNoBroker    = errors.New("no broker address is configured")
	errNoPartition = errors.New("the answer does not describe the metadata partition")
)

// Options say how a cluster is reached.
type Options struct {
	// Brokers are addresses host:port of replication listeners. The hosts must be
	// names their leaves are issued for.
	Brokers []string
	// Controllers are addresses host:port of control plane listeners. When there
	// are none the quorum is asked for through a broker, which knows no more than
	// the controllers it can reach.
	Controllers []string
	// Dial opens the transport.
	Dial mtls.DialFunc
	// Credentials are read before every dial.
	Credentials mtls.Source
	// Leaves gives the fingerprints of leaves known to belong to a host, if any;
	// see mtls.Peer. It may be nil.
	Leaves func(host string) []string
	// Now is the clock that certificates are judged by.
	Now func() time.Time
	// PartitionBytes bounds what the partitions of the cluster take in memory, both here
	// and where they are handed on to; 64 MiB if it is zero.
	PartitionBytes int
	// Timeout bounds every method of the client; DialTimeout every connection.
	Timeout, DialTimeout time.Duration
}

// Kafka is the Client of a real cluster. It keeps nothing: every method opens a
// connection and ends it.
//
// It speaks to brokers below a Kafka client, which would make room for whatever an answer
// announces before it has seen it.
type Kafka struct {
	options Options
	dialer  mtls.Dialer
}

var _ Client = (*Kafka)(nil)

// Open makes a client. It connects to nobody yet.
func Open(options Options) (*Kafka, error) {
	if len(options.Brokers) == 0 {
		return nil, errNoBroker
	}
	if options.PartitionBytes == 0 {
		options.PartitionBytes = defaultPartitionBytes
	}
	return &Kafka{options: options, dialer: mtls.Dialer{
		Dial: options.Dial, Source: options.Credentials, Now: options.Now, Timeout: options.DialTimeout,
	}}, nil
}

// Close has nothing to end.
func (k *Kafka) Close() {}

func (k *Kafka) connect(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address of a Kafka node: %w", err)
	}
	peer := mtls.Peer{Name: host}
	if k.options.Leaves != nil {
		peer.Leaves = k.options.Leaves(host)
	}
	return k.dialer.Connect(ctx, address, peer)
}

// within bounds one method.
func (k *Kafka) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.options.Timeout)
}

func isRefusal(err *kerr.Error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed)
}
