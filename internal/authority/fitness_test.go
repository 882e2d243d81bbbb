package authority_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
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
