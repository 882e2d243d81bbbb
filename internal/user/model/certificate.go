package model

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// Entries of the Secret of a user with a certificate.
const (
	// CAEntry is the clients CA as its own Secret has it, not the CA that a client trusts.
	CAEntry          = authority.CertKey
	CertificateEntry = "user.crt"
	KeyEntry         = "user.key"
)

// CA is the clients CA of a cluster.
type CA struct {
	// Bundle is what its certificate Secret publishes, in PEM.
	Bundle []byte
	// Signer signs certificates of users; zero where the key is missing or belongs to no certificate.
	Signer pki.Authority
	// Trusted are all CA certificates that nodes trust for clients, those of earlier keys included.
	Trusted []*x509.Certificate
	// IsDistrusted: a person has said that the earlier keys are compromised.
	IsDistrusted bool
	// Anchors are what nodes trust, where the stored certificate is of another CA than Signer; nil where nothing says so.
	Anchors []authority.Anchor
}

// Certificate is what the certificate of a user shall be.
type Certificate struct {
	// User is its common name. There is no organization: access rules know the user as CN=<user>.
	User     string
	Key      pki.KeyParams
	Validity time.Duration
	// Renewal is how long before its end it is issued again.
	Renewal time.Duration
}

// CertificateInput is everything that the decision about a user's certificate depends on.
type CertificateInput struct {
	Want Certificate
	CA   CA
	// Stored is the data of the user's Secret, nil when there is none.
	Stored map[string][]byte
	Window authority.Window
	Now    time.Time
}

// DecideCertificate says whether the stored certificate stays. One that Signer cannot replace stays whatever is wrong
// with it.
func DecideCertificate(in CertificateInput) authority.LeafDecision {
	return authority.DecideLeaf(authority.LeafInput{
		Stored: authority.StoredLeaf{Certificates: in.Stored[CertificateEntry], Key: in.Stored[KeyEntry]},
		Want: authority.WantedLeaf{
			Subject: in.Want.subject(), Key: in.Want.Key, Authority: in.CA.Signer,
			Validity: in.Want.Validity, Renewal: in.Want.Renewal,
		},
		Window: in.Window, Now: in.Now,
	})
}

func (c Certificate) subject() pki.Subject { return pki.Subject{CommonName: c.User} }

// Request asks an issuer for the certificate, with a key that the issuer makes.
func (c Certificate) Request(now time.Time) issuer.Request {
	return issuer.Request{
		Name: c.User, Subject: c.subject(), Usages: []pki.Usage{pki.ClientAuth},
		Validity: c.Validity, Renewal: c.Renewal, Key: c.Key, Now: now,
	}
}

// Kept is what the Secret shall hold when the stored certificate stays.
func (ca CA) Kept(stored map[string][]byte) map[string][]byte {
	return map[string][]byte{CAEntry: ca.Bundle, CertificateEntry: stored[CertificateEntry], KeyEntry: stored[KeyEntry]}
}

// Issued is what the Secret shall hold with a new certificate. Clients present the leaf alone: nodes trust
// every CA that signs users.
func (ca CA) Issued(certificate issuer.Issued) map[string][]byte {
	return map[string][]byte{
		CAEntry: ca.Bundle, CertificateEntry: pki.EncodeBundle(certificate.Chain[0]), KeyEntry: certificate.Key.PEM(),
	}
}

// Lifetime is from when until when the certificate that the Secret holds is valid with what is presented with it; zero when it
// holds none.
func Lifetime(data map[string][]byte) (notBefore, notAfter time.Time) {
	chain, err := pki.ParseBundle(data[CertificateEntry])
	if err != nil {
		return time.Time{}, time.Time{}
	}
	return chain[0].NotBefore, pki.EarliestEnd(chain)
}
