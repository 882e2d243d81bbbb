package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Facing is what the agent presents, and which clients it answers.
type Facing struct {
	Identity tls.Certificate
	// Trusts verify clients.
	Trusts []*x509.Certificate
	// Operators are the SHA-256 fingerprints, in lower-case hex, of leaves that are
	// answered without an anchor.
	Operators []string
}

// FacingFunc returns what the agent presents and which clients it answers now.
type FacingFunc func() (Facing, error)

var errNoCertificate = errors.New("the client presents no certificate")

// TLSConfig makes a configuration that asks facing for every handshake, so that
// a new leaf and a new anchor count from the next one on. A client is let in if
// a named anchor verifies its certificate, or if its leaf is one the operator is
// known to have: expired or not, because evidence must not end with the
// certificates it is about. now is the clock.
func TLSConfig(facing FacingFunc, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			f, err := facing()
			if err != nil {
				return nil, fmt.Errorf("nothing to present yet: %w", err)
			}
			return configFor(f, now), nil
		},
	}
}

func configFor(f Facing, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{f.Identity},
		// Required here and verified below: the standard verification knows no
		// fingerprints.
		ClientAuth: tls.RequireAnyClientCert,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(f, state.PeerCertificates, now())
		},
		// A resumed session would skip the verification.
		SessionTicketsDisabled: true,
	}
}

func verify(f Facing, presented []*x509.Certificate, now time.Time) error {
	if len(presented) == 0 {
		return errNoCertificate
	}
	leaf := presented[0]
	if slices.Contains(f.Operators, pki.FingerprintOf(leaf).String()) {
		return nil
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, anchor := range f.Trusts {
		roots.AddCert(anchor)
	}
	for _, c := range presented[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the client's leaf %s is not accepted: %w", pki.FingerprintOf(leaf), err)
	}
	return nil
}
