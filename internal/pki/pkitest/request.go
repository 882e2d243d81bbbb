package pkitest

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/netip"
	"testing"
)

// Request is a PKCS#10 request in DER for a key of any kind. It asks for an organization, a name and an address.
func Request(tb testing.TB, key crypto.Signer, organization, name string, address netip.Addr) []byte {
	tb.Helper()
	tmpl := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root", Organization: []string{organization}}, DNSNames: []string{name},
	}
	tmpl.IPAddresses = append(tmpl.IPAddresses, address.AsSlice())
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}
