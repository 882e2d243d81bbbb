package pki_test

import (
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func benchmarkIssue(b *testing.B, ca, leaf pki.KeyParams) {
	b.Helper()
	authority, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: "ca"}, Key: ca, Validity: 365 * day, Now: noon()})
	if err != nil {
		b.Fatal(err)
	}
	spec := leafSpec(b)
	b.ReportAllocs()
	for b.Loop() {
		key, err := pki.GenerateKey(leaf)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := authority.Issue(key.Signer().Public(), spec); err != nil {
			b.Fatal(err)
		}
	}
}

// Issuing includes making the key.
func BenchmarkIssueLeafECDSA(b *testing.B) {
	benchmarkIssue(b, pki.DefaultCAKey(pki.ECDSA), pki.DefaultLeafKey(pki.ECDSA))
}

func BenchmarkIssueLeafRSA2048(b *testing.B) {
	benchmarkIssue(b, pki.DefaultCAKey(pki.RSA), pki.DefaultLeafKey(pki.RSA))
}

// A chain is leaf, issuing CA and root, all ECDSA.
func BenchmarkParseAndVerifyChain(b *testing.B) {
	issuing, root := chainOfTwo(b)
	text := pki.EncodeBundle(append([]*x509.Certificate{issue(b, issuing, leafSpec(b))}, issuing.Presents()...)...)
	b.ReportAllocs()
	for b.Loop() {
		chain, err := pki.ParseBundle(text)
		if err != nil {
			b.Fatal(err)
		}
		if err := pki.Verify(chain, []*x509.Certificate{root}, noon(), pki.ServerAuth); err != nil {
			b.Fatal(err)
		}
	}
}
