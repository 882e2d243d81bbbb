package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
)

// FacingFunc returns what the agent presents and whom it answers now.
type FacingFunc func() (stores.Facing, error)

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

func configFor(f stores.Facing, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{Certificate(f.Identity)},
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

// Certificate is an identity as crypto/tls wants it.
func Certificate(identity stores.Identity) tls.Certificate {
	certificate := tls.Certificate{PrivateKey: identity.Key.Signer(), Leaf: identity.Chain[0]}
	for _, c := range identity.Chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	return certificate
}

func verify(f stores.Facing, presented []*x509.Certificate, now time.Time) error {
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

// isOperator reports whether the verified client is the cluster operator. Every
// node of the cluster has a certificate of the same authority.
func isOperator(state *tls.ConnectionState) bool {
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	subject := state.PeerCertificates[0].Subject
	return subject.CommonName == agent.OperatorCommonName &&
		slices.Equal(subject.Organization, []string{contract.OperatorOrganization})
}
