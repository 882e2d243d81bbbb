package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// FacingFunc returns what the agent presents and which clients it accepts now.
type FacingFunc func() (stores.Facing, error)

// TLSConfig makes a configuration that asks facing for every handshake; see the function
// of its name in package internal/agent/server.
func TLSConfig(facing FacingFunc, now func() time.Time) *tls.Config {
	return server.TLSConfig(func() (server.Facing, error) {
		f, err := facing()
		if err != nil {
			return server.Facing{}, err
		}
		return server.Facing{Identity: Certificate(f.Identity), Trusts: f.Trusts, Operators: f.Operators}, nil
	}, now)
}

// Certificate is an identity as crypto/tls wants it.
func Certificate(identity stores.Identity) tls.Certificate {
	certificate := tls.Certificate{PrivateKey: identity.Key.Signer(), Leaf: identity.Chain[0]}
	for _, c := range identity.Chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	return certificate
}

// IsOperator reports whether the subject is that of the cluster operator. Every node of
// the cluster has a certificate of the same authority.
func IsOperator(subject pkix.Name) bool {
	return subject.CommonName == agent.OperatorCommonName &&
		slices.Equal(subject.Organization, []string{contract.OperatorOrganization})
}
