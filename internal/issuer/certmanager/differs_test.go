package certmanager_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/pki"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func request() issuer.Request {
	return issuer.Request{
		Name: "node-0", Subject: pki.Subject{Organization: "io.strimzi", CommonName: "my-cluster-kafka"},
		SANs: pki.SANs{DNS: []string{"a.svc", "b.svc"}}, Usages: pki.BothUsages(), Validity: 48 * time.Hour, Renewal: time.Hour,
		Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Now: noon(),
	}
}

// leaf is what was requested, except for the change.
func leaf(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "ca"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	cert, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{Subject: r.Subject, SANs: r.SANs, Usages: r.Usages, Validity: r.Validity, Now: r.Now})
	if err != nil {
		t.Fatal(err)
	}
	change(cert)
	cert.Subject.Names = nil
	for _, set := range cert.Subject.ToRDNSequence() {
		cert.Subject.Names = append(cert.Subject.Names, set...)
	}
	encodeNames(t, cert)
	return cert
}

// encodeNames makes the extension what the fields of a certificate say.
func encodeNames(t *testing.T, cert *x509.Certificate) {
	t.Helper()
	var names []asn1.RawValue
	add := func(tag int, content string) {
		names = append(names, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: []byte(content)})
	}
	for _, name := range cert.DNSNames {
		add(2, name)
	}
	for _, address := range cert.IPAddresses {
		add(7, string(address))
	}
	for _, address := range cert.EmailAddresses {
		add(1, address)
	}
	for _, uri := range cert.URIs {
		add(6, uri.String())
	}
	encoded, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cert.Extensions {
		if cert.Extensions[i].Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			cert.Extensions[i].Value = encoded
		}
	}
}

func TestALeafDiffersInWhatAnIssuerChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*x509.Certificate)
		mentions []string
	}{
		"nothing":                  {func(*x509.Certificate) {}, nil},
		"the order of names":       {func(c *x509.Certificate) { c.DNSNames = []string{"a.svc", "b.svc"} }, nil},
		"more ways to use the key": {func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageKeyEncipherment }, nil},
		"a shorter life":           {func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) }, nil},
		"no subject":               {func(c *x509.Certificate) { c.Subject = pkix.Name{} }, []string{"subject", "ACME"}},
		"no organization":          {func(c *x509.Certificate) { c.Subject.Organization = nil }, []string{"io.strimzi", "Vault role"}},
		"an organization more": {func(c *x509.Certificate) {
			c.Subject.Organization = append(c.Subject.Organization, "example")
		}, []string{"subject", "policy"}},
		"another common name":   {func(c *x509.Certificate) { c.Subject.CommonName = "a.svc" }, []string{"CN=a.svc", "CN=my-cluster-kafka"}},
		"a unit":                {func(c *x509.Certificate) { c.Subject.OrganizationalUnit = []string{"x"} }, []string{"OU=x"}},
		"a name less":           {func(c *x509.Certificate) { c.DNSNames = []string{"a.svc"} }, []string{"b.svc", "allowed_domains"}},
		"the common name added": {func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "my-cluster-kafka") }, []string{"my-cluster-kafka", "not requested"}},
		"an address":            {func(c *x509.Certificate) { c.IPAddresses = []net.IP{{10, 0, 0, 1}} }, []string{"10.0.0.1"}},
		"an e-mail address":     {func(c *x509.Certificate) { c.EmailAddresses = []string{"a@b"} }, []string{"1 e-mail"}},
		"a URI":                 {func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, []string{"1 e-mail"}},
		"one usage only":        {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, []string{"client auth", "server_flag"}},
		"no usages":             {func(c *x509.Certificate) { c.ExtKeyUsage = nil }, []string{"usages"}},
		"a usage more": {func(c *x509.Certificate) {
			c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageCodeSigning)
		}, []string{"usages"}},
		"an unknown usage":       {func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}} }, []string{"1.2.3"}},
		"a key that signs not":   {func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }, []string{"TLS 1.3"}},
		"a CA":                   {func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, []string{"CA certificate"}},
		"several things at once": {func(c *x509.Certificate) { c.Subject, c.ExtKeyUsage = pkix.Name{}, nil }, []string{"subject", "usages", "; "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			different := certmanager.Differs(request(), leaf(t, c.change))
			if (different == "") != (c.mentions == nil) {
				t.Errorf("the difference is %q", different)
			}
			for _, part := range c.mentions {
				if !strings.Contains(different, part) {
					t.Errorf("%q does not mention %q", different, part)
				}
			}
		})
	}
}

func TestALeafDiffersInItsKey(t *testing.T) {
	t.Parallel()
	asked := request()
	asked.Key = pki.KeyParams{Algorithm: pki.RSA, Size: 4096}
	if different := certmanager.Differs(asked, leaf(t, func(*x509.Certificate) {})); !strings.Contains(different, "ECDSA 256") {
		t.Errorf("the difference is %q", different)
	}
}

func TestShortfallCountsFromTheBeginningOfTheLeaf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ begins, ends, short time.Duration }{
		"as requested":   {0, 48 * time.Hour, 0},
		"longer":         {0, 50 * time.Hour, 0},
		"backdated":      {-time.Hour, 48 * time.Hour, 0},
		"a third":        {0, 16 * time.Hour, 32 * time.Hour},
		"begun hours on": {2 * time.Hour, 48 * time.Hour, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			offered := leaf(t, func(cert *x509.Certificate) { cert.NotBefore, cert.NotAfter = noon().Add(c.begins), noon().Add(c.ends) })
			if short := request().Shortfall(offered); short != c.short {
				t.Errorf("it is %s short, want %s", short, c.short)
			}
		})
	}
}
