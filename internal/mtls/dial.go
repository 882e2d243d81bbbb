package mtls

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// DialFunc opens the transport below TLS; tests and port forwards replace it.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer opens connections with credentials that are read again for each.
type Dialer struct {
	// Dial opens the transport.
	Dial DialFunc
	// Source gives the credentials.
	Source Source
	// Now is the clock that certificates are judged by.
	Now func() time.Time
	// Timeout bounds the transport and the handshake together.
	Timeout time.Duration
}

// Connect opens a connection to the address and proves both sides, as far as
// TLS allows: with TLS 1.3 a server refuses a client only after the handshake,
// at the first read. Errors are UnreachableError, UntrustedError, RefusedError,
// or whatever the Source returned.
func (d Dialer) Connect(ctx context.Context, address string, peer Peer) (net.Conn, error) {
	credentials, err := d.Source(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials for %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	transport, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, &UnreachableError{Address: address, Err: err}
	}
	conn := tls.Client(transport, credentials.ClientConfig(peer, d.Now))
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, Classify(address, errors.Join(err, transport.Close()))
	}
	return conn, nil
}

// Classify gives an error of a connection to the address one of the three types
// that callers branch on, if it has none yet.
func Classify(address string, err error) error {
	switch {
	case err == nil:
		return nil
	case is[*UntrustedError](err), is[*RefusedError](err), is[*UnreachableError](err):
		return err
	case isAlert(err):
		return &RefusedError{Address: address, Err: err}
	case is[net.Error](err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &UnreachableError{Address: address, Err: err}
	default:
		return err
	}
}

// isAlert recognises an alert sent by the peer; crypto/tls gives it no type of
// its own, but an operation's name.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// UnreachableError says that nobody answered, or not in time: nothing is known
// about the peer.
type UnreachableError struct {
	Address string
	Err     error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s is unreachable: %s", e.Address, said(e.Err))
}

// Unwrap returns what the network said.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError says that the peer is there and will not talk to us: it does not
// accept our certificate, or our name may not ask.
type RefusedError struct {
	Address string
	Err     error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s refused the connection: %s", e.Address, said(e.Err))
}

// Unwrap returns how the peer refused.
func (e *RefusedError) Unwrap() error { return e.Err }

// said is the text of an error that may quote the other side at any length, such as all
// names of the certificate that it presents.
func said(err error) string { return excerpt.Of(err.Error(), excerpt.Foreign) }
