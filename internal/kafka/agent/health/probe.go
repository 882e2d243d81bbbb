package health

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
)

// fencedVersion is the first version of DescribeCluster that tells registered
// and fenced brokers apart (KIP-1073, Kafka 4.0).
const fencedVersion = 2

// Reasons why a server that answers does not serve.
var (
	ErrNotRegistered = errors.New("the broker is not registered with the controllers")
	ErrFenced        = errors.New("the broker is registered and still fenced")
)

var errAnswer = errors.New("the answer is of another kind")

// Probe asks one server, over a connection that it keeps. It is not for
// concurrent use.
type Probe struct {
	server local.Server
	ask    func(ctx context.Context, conn *wire.Conn, id int32) error
	conn   *wire.Conn
}

// NewProbe makes a probe. A broker is asked whether it is registered and takes
// part, a node that is only a controller whether it answers requests at all. The server's limit is long: an answer that a starting
// server holds back arrives at the moment it is ready.
func NewProbe(server local.Server) *Probe {
	ask := describeCluster
	if server.Main() == contract.ControlPlaneListener {
		ask = apiVersions
	}
	return &Probe{server: server, ask: ask}
}

// Check returns nil if the server serves, otherwise why not.
func (p *Probe) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.server.Limit)
	defer cancel()
	if p.conn != nil {
		return p.again(ctx)
	}
	var answer error
	conn, err := p.server.Open(ctx, p.server.Main(), func(ctx context.Context, conn *wire.Conn) error {
		answer = p.ask(ctx, conn, p.server.NodeID)
		if isAnswer(answer) {
			return nil // the connection is good
		}
		return answer
	})
	if err != nil {
		return err
	}
	p.conn = conn
	return answer
}

// again asks over the connection that was kept.
func (p *Probe) again(ctx context.Context) error {
	err := p.ask(ctx, p.conn, p.server.NodeID)
	if !isAnswer(err) {
		return errors.Join(err, p.Close())
	}
	return err
}

// isAnswer reports whether the server has said itself whether it serves.
func isAnswer(err error) bool {
	return err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotRegistered)
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
