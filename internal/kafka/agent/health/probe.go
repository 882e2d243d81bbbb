package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
)

// clientID is how the agent appears in Kafka's request log.
const clientID = "keyturn-agent"

// fencedVersion is the first version of DescribeCluster that tells registered
// and fenced brokers apart (KIP-1073, Kafka 4.0).
const fencedVersion = 2

// Reasons why a server that answers does not serve.
var (
	ErrNotRegistered = errors.New("the broker is not registered with the controllers")
	ErrFenced        = errors.New("the broker is registered and still fenced")
)

var errAnswer = errors.New("the answer is of another kind")

// Target is the server to be asked.
type Target struct {
	// Host is where the server's listeners are reached, loopback in a pod.
	Host   string
	NodeID int32
	// Broker says whom to ask: a broker on its replication listener, a node that
	// is only a controller on the control plane.
	Role Role
	// Leaf is the SHA-256 fingerprint of the leaf the listener must present.
	Leaf string
	// Identity is the node's own certificate.
	Identity tls.Certificate
}

// Role is the question a node is asked.
type Role struct {
	port int
	ask  func(ctx context.Context, conn *wire.Conn, id int32) error
}

// AsBroker asks whether the broker is registered and takes part.
func AsBroker() Role { return Role{port: contract.ReplicationPort, ask: describeCluster} }

// AsController asks whether the controller answers requests at all.
func AsController() Role { return Role{port: contract.ControlPlanePort, ask: apiVersions} }

// Probe asks one server, over a connection that it keeps. It is not for
// concurrent use.
type Probe struct {
	target Target
	dialer mtls.Dialer
	// limit bounds one question. It is long: an answer that a starting server
	// holds back arrives at the moment it is ready.
	limit time.Duration
	conn  *wire.Conn
}

// NewProbe makes a probe; now is the clock certificates are judged by.
func NewProbe(target Target, dial mtls.DialFunc, now func() time.Time, limit time.Duration) *Probe {
	credentials := mtls.Credentials{Identity: target.Identity}
	return &Probe{target: target, limit: limit, dialer: mtls.Dialer{
		Dial:    dial,
		Source:  func(context.Context) (mtls.Credentials, error) { return credentials, nil },
		Now:     now,
		Timeout: limit,
	}}
}

// Check returns nil if the server serves, otherwise why not.
func (p *Probe) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	if p.conn == nil {
		address := net.JoinHostPort(p.target.Host, strconv.Itoa(p.target.Role.port))
		conn, err := p.dialer.Connect(ctx, address, mtls.Peer{Name: p.target.Host, Leaves: []string{p.target.Leaf}})
		if err != nil {
			return err
		}
		p.conn = wire.New(conn, clientID)
	}
	err := p.target.Role.ask(ctx, p.conn, p.target.NodeID)
	if err != nil && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrNotRegistered) {
		return errors.Join(err, p.Close())
	}
	return err
}

// Close ends the probe's connection, if it has one.
func (p *Probe) Close() error {
	if p.conn == nil {
		return nil
	}
	conn := p.conn
	p.conn = nil
	return conn.Close()
}

func describeCluster(ctx context.Context, conn *wire.Conn, id int32) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.IncludeFencedBrokers = fencedVersion, true
	answer, err := conn.Request(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.DescribeClusterResponse)
	if !ok {
		return errAnswer
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return fmt.Errorf("describing the cluster: %w", err)
	}
	i := slices.IndexFunc(resp.Brokers, func(b kmsg.DescribeClusterResponseBroker) bool { return b.NodeID == id })
	switch {
	case i < 0:
		return ErrNotRegistered
	case resp.Brokers[i].IsFenced:
		return ErrFenced
	default:
		return nil
	}
}

func apiVersions(ctx context.Context, conn *wire.Conn, _ int32) error {
	answer, err := conn.Request(ctx, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return errAnswer
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}
