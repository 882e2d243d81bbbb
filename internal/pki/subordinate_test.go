package pki_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// below is a CA under a parent whose leaves may have names in one domain.
func below(tb testing.TB, parent pki.Authority, validity time.Duration) pki.Authority {
	tb.Helper()
	ca, err := pki.SignCA(parent, newKey(tb, small()), pki.CASpec{
		Subject: pki.Subject{Organization: "etcd", CommonName: "my-cluster peer-ca v0"}, Validity: validity, Now: noon(),
		PermittedDNS: []string{"my-cluster-peer.etcd.svc"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

func memberSpec(tb testing.TB, values ...string) pki.LeafSpec {
	tb.Helper()
	spec := leafSpec(tb)
	spec.Subject, spec.SANs = pki.Subject{CommonName: "my-cluster-0"}, names(tb, values...)
	return spec
}

func TestACABelowAParentEndsWithIt(t *testing.T) {
	t.Parallel()
	parent := newCA(t, "operator")
	ca := below(t, parent, 1000*day).Certificate()
	switch {
	case !pki.IssuedBy(ca, parent.Certificate()):
		t.Errorf("it is issued by %s", ca.Issuer)
	case !ca.NotAfter.Equal(parent.Certificate().NotAfter) || ca.NotBefore.Before(parent.Certificate().NotBefore):
		t.Errorf("it is valid from %s to %s, the parent to %s", ca.NotBefore, ca.NotAfter, parent.Certificate().NotAfter)
	case ca.MaxPathLen != pki.MaxCrosses:
		t.Errorf("its path length is %d", ca.MaxPathLen)
	}
}

func TestACANeedsAParentThatCanSignIt(t *testing.T) {
	t.Parallel()
	key, parent := newKey(t, small()), newCA(t, "operator")
	spec := pki.CASpec{Subject: pki.Subject{CommonName: "a"}, Validity: day, Now: noon()}
	if _, err := pki.SignCA(pki.Authority{}, key, spec); err == nil {
		t.Error("no parent signs a CA")
	}
	spec.Now = noon().Add(1000 * day)
	if _, err := pki.SignCA(parent, key, spec); err == nil {
		t.Error("an expired parent signs a CA")
	}
}

func TestACABelowAParentIsRenewedBelowIt(t *testing.T) {
	t.Parallel()
	parent := newCA(t, "operator")
	old := below(t, parent, 100*day)
	renewed, err := pki.RenewCABelow(parent, old.Certificate(), old.Key(), 200*day, noon().Add(day))
	if err != nil {
		t.Fatal(err)
	}
	if !pki.IssuedBy(renewed.Certificate(), parent.Certificate()) {
		t.Errorf("it is issued by %s", renewed.Certificate().Issuer)
	}
	wantConstraints(t, renewed.Certificate())
	leaf := issue(t, old, memberSpec(t, "my-cluster-0.my-cluster-peer.etcd.svc"))
	if err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{renewed.Certificate()}, noon().Add(day)); err != nil {
		t.Errorf("new trust refuses an old leaf: %v", err)
	}
	if _, err := pki.RenewCABelow(pki.Authority{}, old.Certificate(), old.Key(), day, noon()); err == nil {
		t.Error("no parent renews a CA")
	}
}

func TestRenewalAndCrossCertificateKeepTheConstraints(t *testing.T) {
	t.Parallel()
	parent := newCA(t, "operator")
	old := below(t, parent, 100*day)
	renewed, err := pki.RenewCA(old.Certificate(), old.Key(), 100*day, noon().Add(day))
	if err != nil {
		t.Fatal(err)
	}
	wantConstraints(t, renewed.Certificate())
	cross, err := pki.CrossSign(newCA(t, "before"), old.Certificate(), noon().Add(day))
	if err != nil {
		t.Fatal(err)
	}
	wantConstraints(t, cross)
}

// wantConstraints wants those of below.
func wantConstraints(t *testing.T, ca *x509.Certificate) {
	t.Helper()
	if !slices.Equal(ca.PermittedDNSDomains, []string{"my-cluster-peer.etcd.svc"}) || !ca.PermittedDNSDomainsCritical {
		t.Errorf("%s permits %v (critical: %t)", ca.Subject, ca.PermittedDNSDomains, ca.PermittedDNSDomainsCritical)
	}
}

func TestNameConstraintsHoldForDNSNamesOnly(t *testing.T) {
	t.Parallel()
	ca := below(t, newCA(t, "operator"), 100*day)
	for name, test := range map[string]struct {
		names []string
		valid bool
	}{
		"a member with an address":      {[]string{"my-cluster-0.my-cluster-peer.etcd.svc", "10.0.0.7"}, true},
		"a member of another cluster":   {[]string{"b-0.b-peer.etcd.svc"}, false},
		"a member of another namespace": {[]string{"my-cluster-0.my-cluster-peer.other.svc"}, false},
		"a name that ends alike":        {[]string{"not-my-cluster-peer.etcd.svc"}, false},
		"no names":                      {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leaf := issue(t, ca, memberSpec(t, test.names...))
			err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{ca.Certificate()}, noon(), pki.BothUsages()...)
			if (err == nil) != test.valid {
				t.Errorf("got %v, want that it verifies: %t", err, test.valid)
			}
		})
	}
}

// OpenSSL is stricter than Go: it wants key identifiers, and every extension as RFC 5280 says.
func TestOpenSSLVerifiesALeafUpToTheParent(t *testing.T) {
	t.Parallel()
	parent := newCA(t, "operator")
	ca := below(t, parent, 100*day)
	dir := t.TempDir()
	write := func(name string, certs ...*x509.Certificate) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pki.EncodeBundle(certs...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	operator, cluster := write("operator", parent.Certificate()), write("cluster", ca.Certificate())
	member := write("member", issue(t, ca, memberSpec(t, "my-cluster-0.my-cluster-peer.etcd.svc", "10.0.0.7")))
	client := write("client", issue(t, ca, memberSpec(t)))
	spec := memberSpec(t)
	spec.Subject.CommonName = "etcd.reader"
	dotted := write("dotted", issue(t, ca, spec))
	foreign := write("foreign", issue(t, ca, memberSpec(t, "b-0.b-peer.etcd.svc")))
	for name, test := range map[string]struct {
		arguments []string
		leaf      string
		says      string
	}{
		"a member":                          {[]string{"-CAfile", operator, "-untrusted", cluster}, member, ": OK"},
		"a client without names":            {[]string{"-CAfile", operator, "-untrusted", cluster}, client, ": OK"},
		"a common name that reads as one":   {[]string{"-CAfile", operator, "-untrusted", cluster}, dotted, "permitted subtree violation"},
		"a member of another cluster":       {[]string{"-CAfile", operator, "-untrusted", cluster}, foreign, "permitted subtree violation"},
		"the cluster CA as the only anchor": {[]string{"-CAfile", cluster, "-partial_chain"}, member, ": OK"},
		"the same without a partial chain":  {[]string{"-CAfile", cluster}, member, "unable to get issuer certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := append([]string{"verify", "-x509_strict", "-attime", strconv.FormatInt(noon().Unix(), 10)}, test.arguments...)
			output, err := exec.CommandContext(t.Context(), "openssl", append(arguments, test.leaf)...).CombinedOutput()
			if !strings.Contains(string(output), test.says) {
				t.Errorf("openssl says %q (%v), want %q", output, err, test.says)
			}
		})
	}
}
