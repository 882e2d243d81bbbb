package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestARequestAsksForWhatItWasMadeFor(t *testing.T) {
	t.Parallel()
	spec, key := leafSpec(t), newKey(t, small())
	data, err := pki.NewRequest(key, spec.Subject, spec.SANs)
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.CheckRequest(request, spec.Subject, spec.SANs); err != nil {
		t.Error(err)
	}
}

func TestARequestThatAsksForSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	spec := leafSpec(t)
	good := x509.CertificateRequest{
		Subject:  pkix.Name{Organization: []string{"io.strimzi"}, CommonName: "my-kafka"},
		DNSNames: []string{"my-kafka-bootstrap.ns.svc"},
	}
	wanted := names(t, "my-kafka-bootstrap.ns.svc")
	tests := map[string]func(*x509.CertificateRequest){
		"another common name":   func(r *x509.CertificateRequest) { r.Subject.CommonName = "cluster-operator" },
		"one more organisation": func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"io.strimzi", "system:masters"} },
		"one name more":         func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "other.example.org") },
		"one name less":         func(r *x509.CertificateRequest) { r.DNSNames = nil },
		"an e-mail address":     func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.org"} },
		"a URI":                 func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} },
		"to be a CA": func(r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmpl := good
			change(&tmpl)
			der, err := x509.CreateCertificateRequest(rand.Reader, &tmpl, newKey(t, small()).Signer())
			if err != nil {
				t.Fatal(err)
			}
			request, err := pki.ParseRequest(block("CERTIFICATE REQUEST", der))
			if err != nil {
				t.Fatal(err)
			}
			if err := pki.CheckRequest(request, spec.Subject, wanted); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestARequestNeedsTheSignatureOfItsKey(t *testing.T) {
	t.Parallel()
	data, err := pki.NewRequest(newKey(t, small()), leafSpec(t).Subject, leafSpec(t).SANs)
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	der := request.Raw
	der[len(der)-1] ^= 1
	if _, err := pki.ParseRequest(block("CERTIFICATE REQUEST", der)); err == nil || !strings.Contains(err.Error(), "request") {
		t.Errorf("a request with a broken signature: %v", err)
	}
	if _, err := pki.ParseRequest(pki.EncodeBundle(newCA(t, "a").Certificate())); err == nil {
		t.Error("a certificate was read as a request")
	}
}

func FuzzParseRequest(f *testing.F) {
	data, err := pki.NewRequest(newKey(f, small()), leafSpec(f).Subject, leafSpec(f).SANs)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Helper()

		request, err := pki.ParseRequest(data)
		if err == nil && request.PublicKey == nil {
			t.Error("a request without a key")
		}
	})
}
