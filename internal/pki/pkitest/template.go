package pkitest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"testing"
)

// Signed is a certificate that is made of a template as it is, whatever clients think of it.
func Signed(tb testing.TB, template, issuer *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key, by)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return certificate
}
