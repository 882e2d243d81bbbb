package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// clientID is how the agent appears in Kafka's request log.
const clientID = "keyturn-agent"

// Known is what is known of the server at one moment.
type Known struct {
	// Leaves are the SHA-256 fingerprints of the leaves it may present: while it
	// reloads these are two.
	Leaves []string
	// Identities are the node's own, the one most likely to be accepted first.
	Identities []tls.Certificate
	// Anchors verify the other controllers of the cluster.
	Anchors []*x509.Certificate
}

// Server is the node's own server.
type Server struct {
	// Host is where its listeners are reached, loopback in a pod.
	Host string
	// NodeID is its id.
	NodeID int32
	// Roles are those of contract.Config: a broker is asked on its replication
	// listener, a controller on the control plane.
	Roles []string
	// Voters are the addresses of the control planes of all controllers. The node
	// that is only a controller has to hand changes to the one that leads.
	Voters []string
	// Known is asked for each connection.
	Known func() Known
	// Dial opens the transport.
	Dial mtls.DialFunc
	// Now is the clock that certificates are judged by.
	Now func() time.Time
	// Limit bounds every question, its connection included.
	Limit time.Duration
}

var (
	errNoPort     = errors.New("its name does not end with a port")
	errNoIdentity = errors.New("the node's own identity is not known yet")
	errAnswer     = errors.New("the answer is of another kind")
)

// Address is where a listener is reached.
func (s Server) Address(listener publication.Role) (string, error) {
	port, ok := listener.Port()
	if !ok {
		return "", fmt.Errorf("reaching the listener %s: %w", listener, errNoPort)
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(port)), nil
}

// Question is asked over one connection.
type Question func(ctx context.Context, conn *wire.Conn) error

// Main is the listener where the node is asked about itself: that of replication,
// or the control plane where there is no broker.
func (s Server) Main() publication.Role {
	if slices.Contains(s.Roles, contract.RoleBroker) {
		return contract.ReplicationListener
	}
	return contract.ControlPlaneListener
}

// Open connects to the listener with the first identity that the question is not
// refused with. The connection is the caller's, unless there is an error: then
// it is closed.
func (s Server) Open(ctx context.Context, listener publication.Role, ask Question) (*wire.Conn, error) {
	address, err := s.Address(listener)
	if err != nil {
		return nil, err
	}
	known := s.Known()
	return s.open(ctx, address, mtls.Peer{Name: s.Host, Leaves: known.Leaves}, known, ask)
}

func (s Server) open(ctx context.Context, address string, peer mtls.Peer, known Known, ask Question) (*wire.Conn, error) {
	refused := errNoIdentity
	for _, identity := range known.Identities {
		conn, err := s.attempt(ctx, address, peer, mtls.Credentials{Identity: identity, Anchors: known.Anchors}, ask)
		if err == nil {
			return conn, nil
		}
		if _, ok := errors.AsType[*mtls.RefusedError](err); !ok {
			return nil, err
		}
		refused = err
	}
	return nil, refused
}

func (s Server) attempt(ctx context.Context, address string, peer mtls.Peer, credentials mtls.Credentials, ask Question) (*wire.Conn, error) {
	dialer := mtls.Dialer{
		Dial: s.Dial, Now: s.Now, Timeout: s.Limit,
		Source: func(context.Context) (mtls.Credentials, error) { return credentials, nil },
	}
	raw, err := dialer.Connect(ctx, address, peer)
	if err != nil {
		return nil, err
	}
	conn := wire.New(raw, clientID)
	if err := ask(ctx, conn); err != nil {
		return nil, errors.Join(mtls.Classify(address, err), conn.Close())
	}
	return conn, nil
}
