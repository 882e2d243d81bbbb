package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestAFingerprintSurvivesItsTextForm(t *testing.T) {
	t.Parallel()
	fp := pki.FingerprintOf(newCA(t, "a").Certificate())
	for _, text := range []string{fp.String(), strings.ToUpper(fp.String())} {
		if got, err := pki.ParseFingerprint(text); err != nil || got != fp {
			t.Errorf("ParseFingerprint(%q) = %s, %v", text, got, err)
		}
	}
	data, err := json.Marshal(fp)
	if err != nil || string(data) != `"`+fp.String()+`"` {
		t.Errorf("JSON form %s, %v", data, err)
	}
	var read pki.Fingerprint
	if err := json.Unmarshal(data, &read); err != nil || read != fp {
		t.Errorf("read %s, %v", read, err)
	}
}

func TestWhatIsNoFingerprintIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ab", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		if fp, err := pki.ParseFingerprint(text); err == nil {
			t.Errorf("ParseFingerprint(%q) = %s", text, fp)
		}
	}
}

func TestARenewedAuthorityIsAnotherCertificateOfTheSameKey(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	renewed, err := pki.RenewCA(ca.Certificate(), ca.Key(), 365*day, noon().Add(day))
	if err != nil {
		t.Fatal(err)
	}
	if pki.FingerprintOf(ca.Certificate()) == pki.FingerprintOf(renewed.Certificate()) {
		t.Error("the fingerprint did not change")
	}
	if pki.KeyIDOf(ca.Certificate()) != pki.KeyIDOf(renewed.Certificate()) || ca.Key().ID() != renewed.Key().ID() {
		t.Error("the key id changed")
	}
}

func TestSHA1NamesAreFortyLowerCaseHexDigits(t *testing.T) {
	t.Parallel()
	name := pki.SHA1Name(newCA(t, "a").Certificate())
	if len(name) != 40 || strings.ToLower(name) != name {
		t.Errorf("%q is not 40 lower-case hex digits", name)
	}
}

// other makes a certificate of an authority's key that says something else of it.
func other(t *testing.T, of pki.Authority, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	cert := of.Certificate()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(7), RawSubject: cert.RawSubject, SubjectKeyId: cert.SubjectKeyId,
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: cert.KeyUsage,
	}
	change(tmpl)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, cert.PublicKey, of.Key().Signer())
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAnAuthorityIsItsKeyItsNameAndItsKeyIdentifier(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	leaf := issue(t, ca, leafSpec(t))
	for name, c := range map[string]struct {
		cert *x509.Certificate
		same bool
	}{
		"a renewed certificate": {other(t, ca, func(*x509.Certificate) {}), true},
		"another subject": {other(t, ca, func(c *x509.Certificate) {
			c.RawSubject = newCA(t, "b").Certificate().RawSubject
		}), false},
		"another key identifier": {other(t, ca, func(c *x509.Certificate) { c.SubjectKeyId = []byte("another") }), false},
		"another key":            {newCA(t, "a").Certificate(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pki.AuthorityIDOf(c.cert) == pki.AuthorityIDOf(ca.Certificate()); got != c.same {
				t.Errorf("the same authority: %t, want %t", got, c.same)
			}
			if got := pki.IssuedBy(leaf, c.cert); got != c.same {
				t.Errorf("has issued the leaf: %t, want %t", got, c.same)
			}
			if err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{c.cert}, noon()); (err == nil) != c.same {
				t.Errorf("verifies the leaf: %v, want %t", err, c.same)
			}
		})
	}
}

func TestACrossCertificateLeadsFromOneNameOfAKeyToAnother(t *testing.T) {
	t.Parallel()
	before := newCA(t, "a")
	after, err := pki.NewAuthority(other(t, before, func(c *x509.Certificate) {
		c.RawSubject = newCA(t, "b").Certificate().RawSubject
	}), before.Key())
	if err != nil {
		t.Fatal(err)
	}
	cross, err := pki.CrossSign(before, after.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, after, leafSpec(t))
	for _, anchor := range []*x509.Certificate{before.Certificate(), after.Certificate()} {
		if err := pki.Verify([]*x509.Certificate{leaf, cross}, []*x509.Certificate{anchor}, noon()); err != nil {
			t.Errorf("by %q: %v", anchor.Subject, err)
		}
	}
}

func TestNoCrossCertificateLeadsFromOneKeyIdentifierToAnother(t *testing.T) {
	t.Parallel()
	before := newCA(t, "a")
	after := other(t, before, func(c *x509.Certificate) { c.SubjectKeyId = []byte("another") })
	if _, err := pki.CrossSign(before, after, noon()); err == nil {
		t.Error("signed: it names its own issuer, and the JVM refuses it")
	}
}

func TestACertificateByItsOwnKeyTellsTheNameBefore(t *testing.T) {
	t.Parallel()
	before := newCA(t, "a")
	named := func(name string, ca pki.Authority) *x509.Certificate {
		return other(t, ca, func(c *x509.Certificate) { c.RawSubject = newCA(t, name).Certificate().RawSubject })
	}
	cross := func(by pki.Authority, of *x509.Certificate) *x509.Certificate {
		t.Helper()
		signed, err := pki.CrossSign(by, of, noon())
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	for name, c := range map[string]struct {
		cert *x509.Certificate
		told bool
	}{
		"its cross certificate for the name after":        {cross(before, named("b", before)), true},
		"a cross certificate for another key":             {cross(before, newCA(t, "b").Certificate()), false},
		"a self-signed certificate":                       {before.Certificate(), false},
		"a leaf":                                          {issue(t, before, leafSpec(t)), false},
		"what a key says that is not the one it is about": {cross(newCA(t, "a"), named("b", before)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, told := pki.FormerNameOf(c.cert)
			if told != c.told || told && id != pki.AuthorityIDOf(before.Certificate()) {
				t.Errorf("told: %t, %s", told, id)
			}
		})
	}
}
