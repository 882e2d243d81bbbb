package pki_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

// chainOfTwo returns an issuing CA below a root.
func chainOfTwo(tb testing.TB) (issuing pki.Authority, root *x509.Certificate) {
	tb.Helper()
	above, below := newCA(tb, "root"), newCA(tb, "issuing")
	cert, err := pki.CrossSign(above, below.Certificate(), noon())
	if err != nil {
		tb.Fatal(err)
	}
	issuing, err = pki.NewAuthority(cert, below.Key(), cert)
	if err != nil {
		tb.Fatal(err)
	}
	return issuing, above.Certificate()
}

func TestAChainIsInOrderWhenEachIssuedTheOneBefore(t *testing.T) {
	t.Parallel()
	issuing, root := chainOfTwo(t)
	stranger := newCA(t, "root").Certificate()
	tests := map[string]struct {
		chain []*x509.Certificate
		fault string
	}{
		"issuer of leaves first":     {[]*x509.Certificate{issuing.Certificate(), root}, ""},
		"one alone":                  {[]*x509.Certificate{root}, ""},
		"root first":                 {[]*x509.Certificate{root, issuing.Certificate()}, "out of order"},
		"an issuer of the same name": {[]*x509.Certificate{issuing.Certificate(), stranger}, "not signed by"},
		"nothing":                    {nil, "empty"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := pki.CheckChainOrder(tc.chain)
			if tc.fault == "" && err != nil || tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

func TestAChainOfCAsIsValidAtATime(t *testing.T) {
	t.Parallel()
	issuing, root := chainOfTwo(t)
	chain := []*x509.Certificate{issuing.Certificate(), root}
	if err := pki.CheckCAChain(chain, noon()); err != nil {
		t.Errorf("a good chain is refused: %v", err)
	}
	if err := pki.CheckCAChain(chain, noon().Add(400*day)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired chain: %v", err)
	}
	if err := pki.CheckCAChain(chain, noon().Add(-day)); err == nil || !strings.Contains(err.Error(), "before") {
		t.Errorf("a chain of tomorrow: %v", err)
	}
	leaf := issue(t, issuing, leafSpec(t))
	if err := pki.CheckCAChain([]*x509.Certificate{leaf, issuing.Certificate(), root}, noon()); err == nil || !strings.Contains(err.Error(), "not a CA") {
		t.Errorf("a leaf among CAs: %v", err)
	}
}

func TestWhoTrustsOnlyTheRootVerifiesThroughTheIntermediate(t *testing.T) {
	t.Parallel()
	issuing, root := chainOfTwo(t)
	presented := append([]*x509.Certificate{issue(t, issuing, leafSpec(t))}, issuing.Presents()...)
	if err := pki.Verify(presented, []*x509.Certificate{root}, noon(), pki.ServerAuth); err != nil {
		t.Error(err)
	}
	if err := pki.Verify(presented[:1], []*x509.Certificate{root}, noon()); err == nil {
		t.Error("verified without the intermediate")
	}
	if err := pki.Verify(nil, []*x509.Certificate{root}, noon()); err == nil {
		t.Error("nothing was verified")
	}
}

func TestALeafIsRefusedForAUsageItLacks(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	spec := leafSpec(t)
	spec.Usages = []pki.Usage{pki.ClientAuth}
	leaf := issue(t, ca, spec)
	if err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{ca.Certificate()}, noon(), pki.ServerAuth); err == nil {
		t.Error("a client certificate passed as a server's")
	}
}

func TestTheSignatureTellsWhoSigned(t *testing.T) {
	t.Parallel()
	ca, namesake := newCA(t, "a"), newCA(t, "a")
	leaf := issue(t, ca, leafSpec(t))
	if !pki.SignedBy(leaf, ca.Certificate()) || pki.SignedBy(leaf, namesake.Certificate()) {
		t.Error("the signer is not told from its namesake")
	}
}

func TestAKeyKnowsWhatItHasSigned(t *testing.T) {
	t.Parallel()
	old, successor := newCA(t, "old"), newCA(t, "new")
	cross, err := pki.CrossSign(old, successor.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	if !old.Key().Signed(cross) || successor.Key().Signed(cross) || (pki.PrivateKey{}).Signed(cross) {
		t.Error("it takes another's signature for its own, or its own for another's")
	}
}
