package pkitest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"
)

// Outside is the root of a PKI outside of Kubernetes.
type Outside struct {
	Root *x509.Certificate

	key  crypto.Signer
	from time.Time
}

// NewOutside is a root that is valid for twenty years from then on, but for the changes.
func NewOutside(tb testing.TB, from time.Time, changes ...func(*x509.Certificate)) Outside {
	tb.Helper()
	key := Signer(tb, elliptic.P256())
	template := caTemplate(pkix.Name{CommonName: "company root"}, from, 20, -1)
	for _, change := range changes {
		change(template)
	}
	return Outside{signed(tb, template, template, key.Public(), key), key, from}
}

// Below is a CA with a key of its own that this one has signed, but for the changes.
func (o Outside) Below(tb testing.TB, key crypto.Signer, changes ...func(*x509.Certificate)) Outside {
	tb.Helper()
	unlimited := func(c *x509.Certificate) { c.MaxPathLen = -1 }
	cert := o.Sign(tb, pkix.Name{CommonName: "middle"}, key.Public(), append([]func(*x509.Certificate){unlimited}, changes...)...)
	return Outside{cert, key, o.from}
}

// Version is another certificate for the name and the key of this CA, signed by one that may be itself, but for the changes.
func (o Outside) Version(tb testing.TB, by Outside, changes ...func(*x509.Certificate)) *x509.Certificate {
	tb.Helper()
	unlimited := func(c *x509.Certificate) { c.MaxPathLen = -1 }
	return by.Sign(tb, o.Root.Subject, o.Root.PublicKey, append([]func(*x509.Certificate){unlimited}, changes...)...)
}

// Sign answers a request for a CA by one with path length 1, for ten years, but for the changes.
func (o Outside) Sign(tb testing.TB, subject pkix.Name, public crypto.PublicKey, changes ...func(*x509.Certificate)) *x509.Certificate {
	tb.Helper()
	template := caTemplate(subject, o.from, 10, 1)
	for _, change := range changes {
		change(template)
	}
	return signed(tb, template, o.Root, public, o.key)
}

// Signer is a key of any curve.
func Signer(tb testing.TB, curve elliptic.Curve) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func caTemplate(subject pkix.Name, from time.Time, years, pathLength int) *x509.Certificate {
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: from.Add(-time.Hour), NotAfter: from.AddDate(years, 0, 0),
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: pathLength, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func signed(tb testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}
