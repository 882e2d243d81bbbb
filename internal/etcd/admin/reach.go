package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// Why a member gives no answer.
var (
	ErrNoConnection = errors.New("its pod accepts no connection")
	ErrUntrusted    = errors.New("its certificate is not accepted")
	ErrRejected     = errors.New("it rejects the certificate of the operator")
	ErrNameNotFound = errors.New("its DNS name does not exist")
	ErrNoNameServer = errors.New("no DNS server answers for its name")
)

// Network tells why a member gives no answer.
type Network interface {
	// Reach connects to the member at a client URL, and asks it nothing. The error is one of those above.
	Reach(ctx context.Context, url string, identity *tls.Config) error
	// Resolve looks a DNS name up.
	Resolve(ctx context.Context, host string) error
}

// Direct is the network of this process.
type Direct struct {
	// Resolver looks names up; nil is that of the machine.
	Resolver *net.Resolver
}

var _ Network = Direct{}

// refusal is how long a member may take to reject a certificate: with TLS 1.3 the client hears of it after the handshake.
const refusal = 500 * time.Millisecond

// alert is the operation of an error that the other side has sent in a TLS alert.
const alert = "remote error"

// Reach implements Network.
func (d Direct) Reach(ctx context.Context, address string, identity *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	at, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the URL of a member: %w", err)
	}
	plain, err := (&net.Dialer{Resolver: d.Resolver}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return asUnreached(err)
	}
	defer func() { _ = plain.Close() }()
	if identity == nil {
		return nil
	}
	identity = identity.Clone()
	identity.NextProtos = []string{"h2"} // that of gRPC, without which etcd hangs up
	encrypted := tls.Client(plain, identity)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return asUnreached(err)
	}
	patience, stop := context.WithTimeout(ctx, refusal)
	defer stop()
	deadline, _ := patience.Deadline()
	if err := encrypted.SetReadDeadline(deadline); err != nil {
		return asUnreached(err)
	}
	_, err = encrypted.Read(make([]byte, 1))
	if timeout, is := errors.AsType[net.Error](err); err == nil || is && timeout.Timeout() {
		return nil
	}
	return asUnreached(err)
}

// Resolve implements Network.
func (d Direct) Resolve(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if _, err := d.Resolver.LookupHost(ctx, host); err != nil {
		return asUnreached(err)
	}
	return nil
}

// asUnreached tells the causes apart by the types of errors.
func asUnreached(err error) error {
	lookup, isLookup := errors.AsType[*net.DNSError](err)
	_, isVerification := errors.AsType[*tls.CertificateVerificationError](err)
	_, isHostname := errors.AsType[x509.HostnameError](err)
	operation, isOperation := errors.AsType[*net.OpError](err)
	cause := ErrNoConnection
	switch {
	case isLookup && lookup.IsNotFound:
		cause = ErrNameNotFound
	case isLookup:
		cause = ErrNoNameServer
	case isVerification, isHostname:
		cause = ErrUntrusted
	case isOperation && operation.Op == alert:
		cause = ErrRejected
	}
	return fmt.Errorf("%w: %w", cause, err)
}
