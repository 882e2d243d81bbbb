package authority_test

import (
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

type change = func(*x509.Certificate)

func usages(usages ...x509.ExtKeyUsage) change {
	return func(tmpl *x509.Certificate) { tmpl.ExtKeyUsage = usages }
}

func permits(domains ...string) change {
	return func(tmpl *x509.Certificate) {
		tmpl.PermittedDNSDomainsCritical, tmpl.PermittedDNSDomains = true, domains
	}
}

func unknown(critical bool) change {
	return func(tmpl *x509.Certificate) {
		tmpl.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Critical: critical, Value: []byte{5, 0}}}
	}
}

// provided is a cluster with a CA of the user's, changed, alone or below a root that is
// changed as well.
func provided(tb testing.TB, kind authorities.Kind, issuing, root change) *world {
	tb.Helper()
	w, _ := userWorld(tb)
	w.in.Names = kind.Names("my")
	sans, err := pki.NewSANs("my-kafka-bootstrap.ns.svc", "my-dual-0.my-kafka-brokers.ns.svc", "10.0.0.7")
	if err != nil {
		tb.Fatal(err)
	}
	w.in.SANs = sans
	own := pkitest.CA(tb, "issuing", noon())
	if root == nil {
		ca := pkitest.Changed(tb, own, own, issuing)
		w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(ca.Certificate())
	} else {
		upper := pkitest.CA(tb, "root", noon())
		upper = pkitest.Changed(tb, upper, upper, root)
		ca := pkitest.Changed(tb, upper, own, issuing)
		w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(ca.Certificate(), upper.Certificate())
	}
	w.in.KeySecret.Data["ca.key"] = own.Key().PEM()
	return w
}

func asItIs(*x509.Certificate) {}

func pathLength(n int) change {
	return func(tmpl *x509.Certificate) { tmpl.MaxPathLen, tmpl.MaxPathLenZero = n, n == 0 }
}

func TestACAWhoseLeavesWouldBeRefusedIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind          authorities.Kind
		issuing, root change
		keyElsewhere  bool
		mentions      []string
	}{
		"names of others only":            {authorities.Cluster, permits("example.com"), nil, false, []string{"ns.svc", "not permitted"}},
		"names of others only, by a root": {authorities.Cluster, asItIs, permits("example.com"), false, []string{"not permitted"}},
		"our names are excluded": {
			authorities.Cluster, func(tmpl *x509.Certificate) { tmpl.ExcludedDNSDomains = []string{"svc"} }, nil, false,
			[]string{"excluded"},
		},
		"our addresses are excluded": {authorities.Cluster, func(tmpl *x509.Certificate) {
			tmpl.ExcludedIPRanges = []*net.IPNet{{IP: net.IPv4(10, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}}
		}, nil, false, []string{"10.0.0.7"}},
		"for servers only":               {authorities.Cluster, usages(x509.ExtKeyUsageServerAuth), nil, false, []string{"issuing", "client auth"}},
		"for clients only":               {authorities.Cluster, usages(x509.ExtKeyUsageClientAuth), nil, false, []string{"server auth"}},
		"for mail only, by a root":       {authorities.Cluster, asItIs, usages(x509.ExtKeyUsageEmailProtection), false, []string{"root", "server auth"}},
		"users, for servers only":        {authorities.Clients, usages(x509.ExtKeyUsageServerAuth), nil, true, []string{"client auth"}},
		"path length 0 above":            {authorities.Cluster, asItIs, pathLength(0), false, []string{"root", "path length 0", "1 CAs"}},
		"path length 0 above, for users": {authorities.Clients, asItIs, pathLength(0), true, []string{"path length 0"}},
		"what nobody knows":              {authorities.Cluster, unknown(true), nil, false, []string{"1.3.6.1.4.1.99999.1"}},
		"what nobody knows, for users":   {authorities.Clients, asItIs, unknown(true), true, []string{"1.3.6.1.4.1.99999.1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := provided(t, tc.kind, tc.issuing, tc.root)
			if tc.keyElsewhere {
				w.in.KeySecret.Data["ca.key"] = []byte("kept elsewhere")
			}
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, append(tc.mentions, tc.kind.CertSecret("my"), "ca.crt", "refused")...)
		})
	}
}

// excludes limits the organizations of subjects.
func excludes(organization string) change {
	name, _ := asn1.Marshal(pkix.Name{Organization: []string{organization}}.ToRDNSequence())
	general := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: name}
	value, _ := asn1.Marshal(struct {
		Excluded []struct{ Base asn1.RawValue } `asn1:"tag:1"`
	}{[]struct{ Base asn1.RawValue }{{general}}})
	return func(tmpl *x509.Certificate) {
		tmpl.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 30}, Value: value}}
	}
}

// keyed is a cluster with a CA of the user's with a key of its own kind.
func keyed(t *testing.T, key crypto.Signer) *world {
	t.Helper()
	w, _ := userWorld(t)
	above := pkitest.NewOutside(t, noon())
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(above.Below(t, key).Root, above.Root)
	w.in.KeySecret.Data["ca.key"] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return w
}

func TestACAThatOnlyNodesAcceptIsAWarning(t *testing.T) {
	t.Parallel()
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		world *world
		says  string
	}{
		"a short key":                       {keyed(t, short), "has 1024 bits"},
		"our subjects are excluded":         {provided(t, authorities.Cluster, excludes("io.strimzi"), nil), "exclude the subject"},
		"our subjects are excluded, a root": {provided(t, authorities.Cluster, asItIs, excludes("io.strimzi")), "exclude the subject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := c.world.decide()
			if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Text, c.says) || !strings.Contains(d.Warnings[0].Text, "OpenSSL") {
				t.Errorf("warnings are %q", d.Warnings)
			}
		})
	}
}

func TestACAOnACurveThatNodesDoNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	_, err := authority.Decide(keyed(t, pkitest.Signer(t, elliptic.P224())).in)
	authoritytest.WantProblem(t, err, "ca.crt", "P-224")
}

func TestACAWithLimitsThatLeaveRoomForTheClusterIsTaken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind          authorities.Kind
		issuing, root change
	}{
		"our names":                     {authorities.Cluster, permits("svc"), nil},
		"both usages":                   {authorities.Cluster, usages(x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth), nil},
		"any usage":                     {authorities.Cluster, usages(x509.ExtKeyUsageAny), nil},
		"path length 0 at the leaves":   {authorities.Cluster, pathLength(0), pathLength(1)},
		"what nobody has to know":       {authorities.Cluster, unknown(false), nil},
		"users, for clients only":       {authorities.Clients, usages(x509.ExtKeyUsageClientAuth), nil},
		"users have names of their own": {authorities.Clients, permits("example.com"), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provided(t, tc.kind, tc.issuing, tc.root).decide()
		})
	}
}
