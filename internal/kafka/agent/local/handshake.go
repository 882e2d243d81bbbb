package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// Seen is what a handshake shows of a listener.
type Seen struct {
	// Chain is what it presents, the leaf first.
	Chain []*x509.Certificate
	// Asks is true when it asks for a client's certificate, of an authority with
	// one of the raw subjects.
	Asks        bool
	Authorities [][]byte
	// Refused is why a request with the identity was not answered, nil when it was.
	Refused error
}

// Look shakes hands with a listener and completes a request: with TLS 1.3 a
// server refuses a client only after the handshake. Whatever the listener
// presents is looked at and nothing is told to it; the error, if any, means that
// it has presented nothing.
func (c *Client) Look(ctx context.Context, listener publication.Role, identity tls.Certificate) (Seen, error) {
	s := c.server
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	address, err := s.Address(listener)
	if err != nil {
		return Seen{}, err
	}
	raw, err := s.Dial(ctx, "tcp", address)
	if err != nil {
		return Seen{}, fmt.Errorf("looking at %s: %w", listener, err)
	}
	var seen Seen
	config := mtls.Credentials{Identity: identity}.ClientConfig(mtls.Peer{Name: s.Host}, s.Now)
	// Nothing is trusted here: what is presented is compared afterwards.
	config.VerifyConnection = func(state tls.ConnectionState) error {
		seen.Chain = slices.Clone(state.PeerCertificates)
		return nil
	}
	config.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		seen.Asks, seen.Authorities = true, request.AcceptableCAs
		return &identity, nil
	}
	conn := tls.Client(raw, config)
	err = conn.HandshakeContext(ctx)
	if err == nil {
		err = greet(ctx, wire.New(conn, clientID))
	}
	seen.Refused = mtls.Classify(address, err)
	err = errors.Join(err, conn.Close())
	if len(seen.Chain) == 0 {
		return Seen{}, fmt.Errorf("looking at %s: %w", listener, err)
	}
	return seen, nil
}

// greet sends the one request that every listener answers before it knows who
// asks, once it accepts the certificate.
func greet(ctx context.Context, conn *wire.Conn) error {
	_, err := conn.Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return err
}
