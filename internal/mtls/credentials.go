package mtls

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Credentials are what a client presents and what it recognises others by, at
// one moment.
type Credentials struct {
	// Identity is the client's leaf, its chain and its key.
	Identity tls.Certificate
	// Anchors are all certification authorities a peer may be verified by. One
	// that has expired verifies nothing, and does no harm here.
	Anchors []*x509.Certificate
}

// Source is asked before every dial, so that a renewed identity or a new anchor
// is used by the next connection without anybody being told.
type Source func(ctx context.Context) (Credentials, error)

// Peer is the server a connection is meant to reach.
type Peer struct {
	// Name is what the peer's leaf must be issued for when an anchor verifies it.
	Name string
	// Leaves are the SHA-256 fingerprints (lower-case hex) of leaves known to
	// belong to the peer. A leaf that is among them is accepted without an anchor
	// and after its end: evidence must not end with the certificate it is about.
	Leaves []string
}

// ClientConfig makes the TLS configuration for one connection to the peer. The
// clock is asked during the handshake. Sessions are never resumed: an old
// session proves nothing about what either side trusts now.
func (c Credentials) ClientConfig(peer Peer, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: peer.Name,
		// Verification is verify's: the standard one cannot accept a leaf by its
		// fingerprint.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return c.verify(peer, state.PeerCertificates, now())
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			// Sent whatever authorities the server names: it names them by DN, and
			// ours may share one.
			return &c.Identity, nil
		},
		SessionTicketsDisabled: true,
	}
}

// errNoLeaf should not happen: a TLS server always presents a certificate.
var errNoLeaf = errors.New("it presents no certificate")

func (c Credentials) verify(peer Peer, presented []*x509.Certificate, now time.Time) error {
	if len(presented) == 0 {
		return &UntrustedError{Peer: peer.Name, Err: errNoLeaf}
	}
	leaf := presented[0]
	fingerprint := Fingerprint(leaf.Raw)
	if slices.Contains(peer.Leaves, fingerprint) {
		return nil
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		DNSName:       peer.Name,
		Roots:         pool(c.Anchors),
		Intermediates: pool(presented[1:]),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return &UntrustedError{Peer: peer.Name, Presented: fingerprint, Err: err}
	}
	return nil
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}

// Fingerprint is the SHA-256 of a certificate's DER in lower-case hex, the form
// in which the operator and its agents name certificates.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// UntrustedError says that the peer answered and could not prove who it is.
type UntrustedError struct {
	// Peer is the name that was asked for.
	Peer string
	// Presented is the SHA-256 fingerprint of the leaf that was presented.
	Presented string
	Err       error
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s presents the leaf %s, which is not trusted: %s", e.Peer, e.Presented, said(e.Err))
}

// Unwrap returns the reason of the verification.
func (e *UntrustedError) Unwrap() error { return e.Err }
