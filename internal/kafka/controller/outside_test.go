package controller

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestALeafAwaitsItsCAWhileNoKnownOneHasSignedIt(t *testing.T) {
	t.Parallel()
	root, other := pkitest.CA(t, "root", noon()), pkitest.CA(t, "other", noon())
	issuing := pkitest.Changed(t, root, pkitest.CA(t, "issuing", noon()), func(ca *x509.Certificate) { ca.NotAfter = noon().Add(time.Hour) })
	leaf := func(ca pki.Authority) *x509.Certificate {
		return pkitest.Changed(t, ca, pkitest.CA(t, "leaf", noon()), func(*x509.Certificate) {}).Certificate()
	}
	for name, c := range map[string]struct {
		issued []*x509.Certificate
		want   bool
	}{
		"a known CA has":                   {[]*x509.Certificate{leaf(root)}, false},
		"another CA has":                   {[]*x509.Certificate{leaf(other)}, true},
		"an intermediate that has expired": {[]*x509.Certificate{leaf(issuing), issuing.Certificate()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := signing(root)
			p.now, p.clusterCA.Known = noon().Add(2*time.Hour), []*x509.Certificate{root.Certificate()}
			if got := awaitsItsCA(p.decided, c.issued); got != c.want {
				t.Errorf("it awaits its CA: %t, want %t", got, c.want)
			}
		})
	}
}
