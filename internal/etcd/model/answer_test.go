package model_test

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// outside is a PKI that is asked to sign the peer CA.
type outside struct {
	pkitest.Outside

	t *testing.T
}

func newOutside(t *testing.T, changes ...func(*x509.Certificate)) outside {
	t.Helper()
	return outside{pkitest.NewOutside(t, noon(), changes...), t}
}

// sign answers the request as it should be, but for the changes.
func (o outside) sign(public crypto.PublicKey, changes ...func(*x509.Certificate)) *x509.Certificate {
	o.t.Helper()
	return o.Sign(o.t, pkix.Name{Organization: []string{"keyturn"}, CommonName: "keyturn-etcd-operator peer-ca"}, public, changes...)
}

func peerCA() model.OperatorCA {
	return model.OperatorCA{Namespace: "keyturn", Plane: contract.PeerPlane}
}

func ownKey(t *testing.T) pki.PrivateKey {
	t.Helper()
	key, err := pki.GenerateKey(peerCA().KeyParams())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const fiveYears = 43800 * time.Hour

func TestAnAnswerOfAnOutsidePKIIsUsedOrRefused(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	public := key.Signer().Public()
	with := func(change func(*x509.Certificate)) []byte {
		return pki.EncodeBundle(root.sign(public, change), root.Root)
	}
	below := func(changed func(*x509.Certificate), answer ...func(*x509.Certificate)) []byte {
		upper := newOutside(t, changed)
		return pki.EncodeBundle(upper.sign(public, answer...), upper.Root)
	}
	good := root.sign(public)
	for name, test := range map[string]struct {
		answer []byte
		want   model.Reason
		cause  string
	}{
		"the certificate and its root":     {answer: pki.EncodeBundle(good, root.Root)},
		"no limit of the path length":      {answer: with(func(c *x509.Certificate) { c.MaxPathLen = -1 })},
		"as long as the longest CA":        {answer: with(func(c *x509.Certificate) { c.NotAfter = noon().Add(fiveYears) })},
		"a root that is signed with SHA-1": {answer: below(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 })},
		"nothing":                          {answer: nil, want: model.CertificateUnreadable, cause: "empty"},
		"no PEM":                           {answer: []byte("no"), want: model.CertificateUnreadable},
		"a private key beside it":          {answer: slices.Concat(pki.EncodeBundle(good, root.Root), key.PEM()), want: model.PrivateKeyInAnswer, cause: "Remove the key"},
		"another key":                      {answer: pki.EncodeBundle(root.sign(pkitest.Signer(t, elliptic.P384()).Public()), root.Root), want: model.KeyMismatch, cause: "another key"},
		"the root first":                   {answer: pki.EncodeBundle(root.Root, good), want: model.KeyMismatch, cause: "not the first"},
		"no CA": {answer: with(func(c *x509.Certificate) {
			c.IsCA, c.MaxPathLen, c.KeyUsage = false, 0, x509.KeyUsageDigitalSignature
		}), want: model.NotACA},
		"no right to sign certificates": {answer: with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }), want: model.NotACA},
		"path length 0":                 {answer: with(func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true }), want: model.PathLengthTooShort, cause: "1 or more"},
		"another name":                  {answer: with(func(c *x509.Certificate) { c.Subject.CommonName = "another" }), want: model.SubjectMismatch, cause: "another"},
		"more in its name":              {answer: with(func(c *x509.Certificate) { c.Subject.Country = []string{"EU"} }), want: model.SubjectMismatch},
		"expired":                       {answer: with(func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) }), want: model.CertificateExpired},
		"a root that has expired":       {answer: below(func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) }), want: model.CertificateExpired},
		"not yet valid":                 {answer: with(func(c *x509.Certificate) { c.NotBefore = noon().Add(time.Minute) }), want: model.CertificateNotYetValid, cause: "2026-05-01T12:01:00Z"},
		"a weak key above it":           {answer: weak(t, public), want: model.WeakCertificate, cause: "too short"},
		"signed with SHA-1":             {answer: with(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA1 }), want: model.WeakCertificate, cause: "SHA1"},
		"no root":                       {answer: pki.EncodeBundle(good), want: model.ChainIncomplete, cause: "no root"},
		"signed by its own key":         {answer: selfSigned(t, key), want: model.ChainIncomplete, cause: "own key"},
		"another root":                  {answer: pki.EncodeBundle(good, newOutside(t).Root), want: model.ChainNotVerified},
		"a root with path length 1":     {answer: below(func(c *x509.Certificate) { c.MaxPathLen = 1 }), want: model.ChainNotVerified, cause: "path length 1, and 2 CAs"},
		"a root for other names":        {answer: below(func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} }), want: model.ChainNotVerified},
		"servers only":                  {answer: with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), want: model.ChainNotVerified, cause: "client auth"},
		"too short":                     {answer: with(func(c *x509.Certificate) { c.NotAfter = noon().Add(fiveYears - time.Second) }), want: model.ExpiresTooSoon, cause: "43800h"},
		"a root that is too short":      {answer: below(func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) }), want: model.ExpiresTooSoon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chain, refusal := peerCA().CheckAnswer(test.answer, key, fiveYears, noon())
			if test.want == "" {
				if refusal != nil || !bytes.Equal(pki.EncodeBundle(chain...), test.answer) {
					t.Errorf("refused: %+v", refusal)
				}
				return
			}
			if refusal == nil || refusal.Reason != test.want || !strings.Contains(refusal.Cause, test.cause) {
				t.Fatalf("the refusal is %+v, want %s with %q", refusal, test.want, test.cause)
			}
			if isTemporary := !refusal.Until.IsZero(); isTemporary != (test.want == model.CertificateNotYetValid) {
				t.Errorf("it is refused until %s", refusal.Until)
			}
		})
	}
}

func TestAnAnswerMayHoldExpiredCertificatesThatNoPathNeeds(t *testing.T) {
	t.Parallel()
	gone := func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) }
	soon := func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) }
	key, root := ownKey(t), newOutside(t)
	ended, ending := newOutside(t, named("old root"), gone), newOutside(t, named("old root"), soon)
	middle := outside{root.Below(t, pkitest.Signer(t, elliptic.P256())), t}
	answer, below := root.sign(key.Signer().Public()), middle.sign(key.Signer().Public())
	for name, test := range map[string]struct {
		chain []*x509.Certificate
		want  model.Reason
		cause string
	}{
		"an older version of the root behind it":      {chain: []*x509.Certificate{answer, root.Root, root.Version(t, root.Outside, gone)}},
		"an older version of the root before it":      {chain: []*x509.Certificate{answer, root.Version(t, root.Outside, gone), root.Root}},
		"an older version of an intermediate":         {chain: []*x509.Certificate{below, middle.Root, root.Root, root.Version(t, root.Outside, gone)}},
		"a cross-signed root that has expired":        {chain: []*x509.Certificate{answer, root.Root, root.Version(t, ended.Outside, gone), ended.Root}},
		"a valid one below a root that has expired":   {chain: []*x509.Certificate{answer, root.Root, root.Version(t, ended.Outside), ended.Root}},
		"one that will expire before any cluster's":   {chain: []*x509.Certificate{answer, root.Root, root.Version(t, ending.Outside), ending.Root}},
		"a later version of the root":                 {chain: []*x509.Certificate{answer, root.Root, root.Version(t, root.Outside, func(c *x509.Certificate) { c.NotBefore = noon().Add(time.Hour) })}},
		"the one root that there is":                  {chain: []*x509.Certificate{answer, root.Version(t, root.Outside, gone)}, want: model.CertificateExpired, cause: "company root"},
		"the root above an intermediate":              {chain: []*x509.Certificate{below, middle.Root, root.Version(t, root.Outside, gone)}, want: model.CertificateExpired, cause: "company root"},
		"the intermediate":                            {chain: []*x509.Certificate{below, middle.Version(t, root.Outside, gone), root.Root}, want: model.CertificateExpired, cause: "middle"},
		"the root above the only cross-signed one":    {chain: []*x509.Certificate{answer, root.Version(t, ended.Outside), ended.Root}, want: model.CertificateExpired, cause: "old root"},
		"the answer, before a root with two versions": {chain: []*x509.Certificate{root.sign(key.Signer().Public(), gone), root.Root, root.Version(t, root.Outside, gone)}, want: model.CertificateExpired, cause: "keyturn-etcd-operator"},
		"one that is out of order":                    {chain: []*x509.Certificate{answer, ended.Root, root.Root}, want: model.CertificateExpired, cause: "old root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chain, refusal := peerCA().CheckAnswer(pki.EncodeBundle(test.chain...), key, fiveYears, noon())
			switch {
			case test.want == "" && (refusal != nil || len(chain) != len(test.chain)):
				t.Errorf("refused: %+v", refusal)
			case test.want != "" && (refusal == nil || refusal.Reason != test.want || !strings.Contains(refusal.Cause, test.cause)):
				t.Errorf("the refusal is %+v, want %s with %q", refusal, test.want, test.cause)
			}
		})
	}
}

func named(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} }
}

// weak is an answer below an intermediate with a short key.
func weak(t *testing.T, public crypto.PublicKey) []byte {
	t.Helper()
	root := newOutside(t)
	middle := outside{root.Below(t, pkitest.Signer(t, elliptic.P224())), t}
	return pki.EncodeBundle(middle.sign(public), middle.Root, root.Root)
}

func selfSigned(t *testing.T, key pki.PrivateKey) []byte {
	t.Helper()
	made, is := peerCA().Decide(model.StoredCA{}, fiveYears, noon()).(model.MakeCA)
	if !is {
		t.Fatal("no CA is made")
	}
	ca, err := pki.SelfSign(key, made.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeBundle(ca.Certificate())
}
