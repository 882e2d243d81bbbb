package probe

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// dialTimeout bounds one attempt, handshake and first request included. A node
// that starts has bound its port long before it answers.
const dialTimeout = 3 * time.Second

// maxAnswer bounds what is read as an answer to ApiVersions; Kafka's has a few
// hundred bytes.
const maxAnswer = 1 << 16

// configure builds the TLS configuration of one dial: nothing of an earlier one
// is kept, and no session is resumed, so that each handshake proves trust by itself.
func (i Identity) configure(ctx context.Context, address string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading address %q: %w", address, err)
	}
	roots, err := i.Trust(ctx)
	if err != nil {
		return nil, &verdict.TrustError{Err: err}
	}
	config := &tls.Config{
		RootCAs:    roots,
		ServerName: host,
		MinVersion: tls.VersionTLS12,
		// The classic curves: a hybrid key exchange costs more than the rest of
		// the handshake, and brokers on Java 17 do not speak it.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	}
	if i.Credential == nil {
		return config, nil
	}
	certificate, err := i.Credential(ctx)
	if err != nil {
		return nil, &verdict.TrustError{Err: err}
	}
	// By callback, because a list of certificates is filtered by the authorities
	// a server names, and a refused certificate must be refused by the server.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return certificate, nil
	}
	return config, nil
}

// Connect opens a connection as this identity, up to the end of the handshake.
func (i Identity) Connect(ctx context.Context, network Network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := network.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !i.Listener.TLS {
		return raw, nil
	}
	config, err := i.configure(ctx, address)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error is the one that counts
		return nil, fmt.Errorf("handshake with %s: %w", address, err)
	}
	return secured, nil
}

// Check opens a fresh connection and completes a request on it. It returns what
// the server presented, if it came that far.
func (i Identity) Check(ctx context.Context, network Network, address string) (observe.Presented, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := i.Connect(ctx, network, address)
	if err != nil {
		return observe.PresentedIn(err), err
	}
	closed := context.AfterFunc(ctx, func() { _ = conn.Close() }) // unblocks Ask
	defer closed()
	shown := observe.PresentedBy(conn)
	err = Ask(conn)
	_ = conn.Close() // the answer is all that was wanted
	if err != nil {
		return shown, fmt.Errorf("first request to %s: %w", address, errors.Join(err, ctx.Err()))
	}
	return shown, nil
}

// Ask sends ApiVersions, which any listener answers before authentication, and reads the answer. If that
// succeeds both sides have accepted the connection. The write may fail where the server has hung up
// already; its reason is then in what can still be read.
func Ask(conn io.ReadWriter) error {
	request := kmsg.NewPtrApiVersionsRequest()
	message := kmsg.NewRequestFormatter(kmsg.FormatterClientID("keyturn-probe")).AppendRequest(nil, request, 1)
	_, writeErr := conn.Write(message)
	head := make([]byte, 8)
	if _, err := io.ReadFull(conn, head); err != nil {
		return errors.Join(err, writeErr)
	}
	size := binary.BigEndian.Uint32(head[:4])
	if correlation := binary.BigEndian.Uint32(head[4:]); size < 4 || size > maxAnswer || correlation != 1 {
		return fmt.Errorf("answer of %d bytes to request %d is not one of Kafka", size, correlation)
	}
	if _, err := io.CopyN(io.Discard, conn, int64(size)-4); err != nil {
		return fmt.Errorf("reading answer: %w", err)
	}
	return nil
}

// notConnected tells the Kafka client that no connection came about. What it does
// not know as an error of a dial it takes for final, and gives records up long
// before their deadline.
func notConnected(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: dialError{err: err}}
}

// dialError hides what the cause says of timeouts, so that all causes are alike.
type dialError struct{ err error }

// Error implements error.
func (e dialError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e dialError) Unwrap() error { return e.err }

// dataConn watches the connection of a client under test for refusals that come
// after the handshake.
type dataConn struct {
	net.Conn

	refused func(error)
}

// Read implements net.Conn.
func (c *dataConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		if kind, _ := verdict.Of(err); kind == verdict.Refused {
			c.refused(err)
			return n, notConnected(err) // the refusal of TLS 1.3 comes late, and is one
		}
	}
	return n, err
}
