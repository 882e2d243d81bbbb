package agenttest

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// validity of everything made here.
const validity = 24 * time.Hour

// Authority makes a certification authority.
func Authority(tb testing.TB, name string, now time.Time) pki.Authority {
	tb.Helper()
	authority, err := pki.NewCA(pki.CASpec{
		Subject:  pki.Subject{CommonName: name, Organization: authorities.Organization},
		Key:      pki.KeyParams{Algorithm: pki.ECDSA, Size: 256},
		Validity: validity,
		Now:      now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return authority
}

// Leaf issues an identity for the common name and the names.
func Leaf(tb testing.TB, authority pki.Authority, commonName string, now time.Time, names ...string) stores.Identity {
	tb.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		tb.Fatal(err)
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject:  pki.Subject{CommonName: commonName, Organization: authorities.Organization},
		SANs:     sans,
		Usages:   pki.BothUsages(),
		Validity: validity,
		Now:      now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return stores.Identity{Chain: append([]*x509.Certificate{leaf}, authority.Presents()...), Key: key}
}

// Proof issues a leaf that shows whether a listener trusts the authority.
func Proof(tb testing.TB, authority pki.Authority, now time.Time) stores.Identity {
	tb.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := authority.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "keyturn-proof"}, Usages: []pki.Usage{pki.ClientAuth}, Validity: validity, Now: now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return stores.Identity{Chain: []*x509.Certificate{leaf}, Key: key}
}

// Operator issues the identity that agents answer.
func Operator(tb testing.TB, authority pki.Authority, now time.Time) stores.Identity {
	tb.Helper()
	return Leaf(tb, authority, agent.OperatorCommonName, now)
}

// TrustDirectory is a mounted trust Secret with the anchors.
func TrustDirectory(anchors ...*x509.Certificate) stores.Directory {
	directory := stores.Directory{}
	for _, anchor := range anchors {
		directory[pki.SHA1Name(anchor)+".crt"] = pki.EncodeBundle(anchor)
		directory[pki.SHA1Name(anchor)+".state"] = []byte("TRUSTED_IN_USE_ALL")
	}
	return directory
}

// PutIdentity adds the identity's files to a node's directory.
func PutIdentity(directory stores.Directory, name string, identity stores.Identity) {
	directory[name+".crt"] = pki.EncodeBundle(identity.Chain...)
	directory[name+".key"] = identity.Key.PEM()
}
