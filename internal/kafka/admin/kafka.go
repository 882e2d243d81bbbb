package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/keyturn/keyturn/internal/mtls"
)

// clientID is how the operator appears in Kafka's request log and quotas.
const clientID = "keyturn-operator"

// requestRetries is how often a request that was lost with its connection is
// sent again. The operator looks again by itself, so that more would only hide
// from it what is going on.
const requestRetries = 2

// idleConnections are closed after this time: the operator comes back in bursts.
const idleConnections = 30 * time.Second

// metadataAge is the longest the client allows: it need not refresh by itself
// what no caller asks for, every method of Client asks again.
const metadataAge = time.Hour

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
	// Leaving are addresses of brokers that are to be removed. They are no bootstrap servers,
	// but other brokers may name them while they run.
	Leaving []string
	// Domain is that of all brokers, such as that of their headless Service: who does not know the
	// brokers one by one takes every host in it for one of them. It may be empty.
	Domain string
	// AnswerLimit is the length of the longest answer that is read, in bytes; zero means what a
	// client needs that lists partitions.
	AnswerLimit int32
	// Dial opens the transport.
	Dial mtls.DialFunc
	// Credentials are read before every dial.
	Credentials mtls.Source
	// Leaves gives the fingerprints of leaves known to belong to a host, if any;
	// see mtls.Peer. It may be nil.
	Leaves func(host string) []string
	// Now is the clock that certificates are judged by.
	Now func() time.Time
	// Timeout bounds every method of the client; DialTimeout every connection.
	Timeout, DialTimeout time.Duration
}

// has reports whether a node of the cluster has the address. Brokers advertise the very texts
// that the options hold.
func (o Options) has(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err == nil && o.Domain != "" && strings.HasSuffix(host, "."+o.Domain) {
		return true
	}
	return slices.ContainsFunc([][]string{o.Brokers, o.Controllers, o.Leaving}, func(of []string) bool { return slices.Contains(of, address) })
}

// Kafka is the Client of a real cluster. It opens connections when they are
// needed and closes those that idle, so that it may be kept for the life of the
// cluster or made for one pass.
type Kafka struct {
	options Options
	dialer  mtls.Dialer
	brokers *kgo.Client
}

var _ Client = (*Kafka)(nil)

// Open creates a client without connections.
func Open(options Options) (*Kafka, error) {
	if len(options.Brokers) == 0 {
		return nil, errNoBroker
	}
	k := &Kafka{options: options, dialer: mtls.Dialer{
		Dial: options.Dial, Source: options.Credentials, Now: options.Now, Timeout: options.DialTimeout,
	}}
	limit := options.brokerLimit()
	brokers, err := kgo.NewClient(
		kgo.ClientID(clientID),
		kgo.SeedBrokers(options.Brokers...),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) { return k.connect(ctx, address, limit) }),
		kgo.RequestRetries(requestRetries),
		kgo.RetryTimeout(options.Timeout),
		kgo.ConnIdleTimeout(idleConnections),
		kgo.MetadataMaxAge(metadataAge),
		kgo.FetchMaxBytes(maxAnswer), // nothing is ever fetched, but the client wants it no higher than the next
		kgo.BrokerMaxReadBytes(max(maxAnswer, options.AnswerLimit)),
		kgo.DisableClientMetrics(),
	)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client for %v: %w", options.Brokers, err)
	}
	k.brokers = brokers
	return k, nil
}

// Close ends all connections.
func (k *Kafka) Close() { k.brokers.Close() }

// connect opens a connection on which no answer is read that is longer than the limit, in bytes.
// Brokers name the addresses of others, and one that was broken into may name any: only those
// of the cluster's own nodes are connected to.
func (k *Kafka) connect(ctx context.Context, address string, limit int) (net.Conn, error) {
	if !k.options.has(address) {
		return nil, &StrangerError{Address: address}
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("address of a Kafka node: %w", err)
	}
	peer := mtls.Peer{Name: host}
	if k.options.Leaves != nil {
		peer.Leaves = k.options.Leaves(host)
	}
	conn, err := k.dialer.Connect(ctx, address, peer)
	if err != nil {
		return nil, err
	}
	return bound(conn, address, limit), nil
}

// within bounds one method.
func (k *Kafka) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, k.options.Timeout)
}

// failed explains the failure of a request to the brokers.
func (k *Kafka) failed(doing string, err error) error {
	if stranger, ok := errors.AsType[*StrangerError](err); ok {
		return fmt.Errorf("%s: %w", doing, stranger)
	}
	if kafka, ok := errors.AsType[*kerr.Error](err); ok && isRefusal(kafka) {
		err = &RefusedError{Address: k.options.Brokers[0], Err: err}
	}
	if first, ok := errors.AsType[*kgo.ErrFirstReadEOF](err); ok {
		// With TLS 1.3 some servers end a connection they refuse without a word.
		err = &RefusedError{Address: k.options.Brokers[0], Err: first}
	}
	return fmt.Errorf("%s: %w", doing, mtls.Classify(k.options.Brokers[0], err))
}

func isRefusal(err *kerr.Error) bool {
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed)
}
