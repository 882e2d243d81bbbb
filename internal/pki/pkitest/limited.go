// Package pkitest makes certificates that Keyturn would not make, and others do.
package pkitest

import (
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

// Limited is the lower of two authorities with a certificate by the upper one whose
// path length is 0: nothing but leaves may stand below it.
func Limited(tb testing.TB, upper, lower pki.Authority) pki.Authority {
	tb.Helper()
	tmpl := *lower.Certificate()
	tmpl.MaxPathLen, tmpl.MaxPathLenZero, tmpl.SignatureAlgorithm = 0, true, 0
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, upper.Certificate(), tmpl.PublicKey, upper.Key().Signer())
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	limited, err := pki.NewAuthority(cert, lower.Key())
	if err != nil {
		tb.Fatal(err)
	}
	return limited
}
