package pki_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// noon is the time at which everything in these tests is made.
func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

const day = 24 * time.Hour

// small makes keys quickly; sizes have tests of their own.
func small() pki.KeyParams { return pki.KeyParams{Algorithm: pki.ECDSA, Size: 256} }

func newKey(tb testing.TB, params pki.KeyParams) pki.PrivateKey {
	tb.Helper()
	key, err := pki.GenerateKey(params)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func newCA(tb testing.TB, name string) pki.Authority {
	tb.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject:  pki.Subject{Organization: "io.strimzi", CommonName: name},
		Key:      small(),
		Validity: 365 * day,
		Now:      noon(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

func names(tb testing.TB, values ...string) pki.SANs {
	tb.Helper()
	sans, err := pki.NewSANs(values...)
	if err != nil {
		tb.Fatal(err)
	}
	return sans
}

func leafSpec(tb testing.TB) pki.LeafSpec {
	tb.Helper()
	return pki.LeafSpec{
		Subject:  pki.Subject{Organization: "io.strimzi", CommonName: "my-kafka"},
		SANs:     names(tb, "my-kafka-bootstrap.ns.svc", "10.1.1.1", "2001:db8::1"),
		Usages:   pki.BothUsages(),
		Validity: 90 * day,
		Now:      noon(),
	}
}

func issue(tb testing.TB, ca pki.Authority, spec pki.LeafSpec) *x509.Certificate {
	tb.Helper()
	leaf, err := ca.Issue(newKey(tb, small()).Signer().Public(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	return leaf
}
