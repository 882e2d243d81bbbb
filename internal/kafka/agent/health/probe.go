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
	// ErrNotListed is all that a broker before Kafka 4.0 can tell of the two.
	ErrNotListed = errors.New("the broker is not registered with the controllers, or still fenced")
)

var errAnswer = errors.New("the answer is of another kind")

// Probe asks one server, over a connection that it keeps. It is not for
// concurrent use.
type Probe struct {
	server local.Server
	choose func(ctx context.Context, conn *wire.Conn, id int32) (question, error)
	conn   *wire.Conn
	ask    question
}

// question asks over one connection whether the server serves.
type question func(ctx context.Context) error

// NewProbe makes a probe. A broker is asked whether it is registered and takes
// part, a node that is only a controller whether it answers requests at all. The server's limit is long: an answer that a starting
// server holds back arrives at the moment it is ready.
func NewProbe(server local.Server) *Probe {
	choose := askBroker
	if server.Main() == contract.ControlPlaneListener {
		choose = askController
	}
	return &Probe{server: server, choose: choose}
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
		var err error
		if p.ask, err = p.choose(ctx, conn, p.server.NodeID); err != nil {
			return err
		}
		answer = p.ask(ctx)
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
	err := p.ask(ctx)
	if !isAnswer(err) {
		return errors.Join(err, p.Close())
	}
	return err
}

// isAnswer reports whether the server has said itself whether it serves.
func isAnswer(err error) bool {
	return err == nil || errors.Is(err, ErrFenced) || errors.Is(err, ErrNotRegistered) || errors.Is(err, ErrNotListed)
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

// askController asks whether the server answers at all.
func askController(_ context.Context, conn *wire.Conn, _ int32) (question, error) {
	return func(ctx context.Context) error {
		_, err := apiVersions(ctx, conn)
		return err
	}, nil
}

// askBroker asks whether the broker takes part, in a version of the request that it knows.
func askBroker(ctx context.Context, conn *wire.Conn, id int32) (question, error) {
	known, err := apiVersions(ctx, conn)
	if err != nil {
		return nil, err
	}
	version := min(newest(known, kmsg.DescribeCluster.Int16()), fencedVersion)
	return func(ctx context.Context) error { return describeCluster(ctx, conn, version, id) }, nil
}

// newest is the newest version of a request that a server knows.
func newest(known *kmsg.ApiVersionsResponse, key int16) int16 {
	for _, of := range known.ApiKeys {
		if of.ApiKey == key {
			return of.MaxVersion
		}
	}
	return 0
}

func describeCluster(ctx context.Context, conn *wire.Conn, version int16, id int32) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version, req.IncludeFencedBrokers = version, true
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
	case i < 0 && version < fencedVersion:
		return ErrNotListed
	case i < 0:
		return ErrNotRegistered
	case resp.Brokers[i].IsFenced:
		return ErrFenced
	default:
		return nil
	}
}

func apiVersions(ctx context.Context, conn *wire.Conn) (*kmsg.ApiVersionsResponse, error) {
	answer, err := conn.Request(ctx, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return nil, err
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, errAnswer
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}
