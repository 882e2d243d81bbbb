// Package pkitest makes certificates that Keyturn would not make, and others do.
package pkitest

import (
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

// Limited is the lower of two authorities with a certificate by the upper one whose
// path length is 0: nothing but leaves may stand below it.
func Limited(tb testing.TB, upper, lower pki.Authority) pki.Authority {
	tb.Helper()
	return Changed(tb, upper, lower, func(tmpl *x509.Certificate) { tmpl.MaxPathLen, tmpl.MaxPathLenZero = 0, true })
}

// Changed is the lower of two authorities with a certificate by the upper one, which
// may be itself, that differs from its own by a change.
func Changed(tb testing.TB, upper, lower pki.Authority, change func(*x509.Certificate)) pki.Authority {
	tb.Helper()
	tmpl := *lower.Certificate()
	tmpl.SignatureAlgorithm = 0
	change(&tmpl)
	parent := upper.Certificate()
	if parent.Equal(lower.Certificate()) {
		parent = &tmpl
	}
	changed, err := pki.NewAuthority(signed(tb, &tmpl, parent, tmpl.PublicKey, upper.Key().Signer()), lower.Key())
	if err != nil {
		tb.Fatal(err)
	}
	return changed
}
