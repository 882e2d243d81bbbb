package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/pki"
)

// shape is what others rely on in a certificate.
type shape struct {
	Subject   string
	Issuer    string
	Signature x509.SignatureAlgorithm
	NotBefore time.Time
	NotAfter  time.Time
	IsCA      bool
	PathLen   int
	KeyUsage  x509.KeyUsage
	Critical  []string
}

func shapeOf(cert *x509.Certificate) shape {
	s := shape{
		Subject:   cert.Subject.String(),
		Issuer:    cert.Issuer.String(),
		Signature: cert.SignatureAlgorithm,
		NotBefore: cert.NotBefore,
		NotAfter:  cert.NotAfter,
		IsCA:      cert.IsCA,
		PathLen:   cert.MaxPathLen,
		KeyUsage:  cert.KeyUsage,
	}
	for _, ext := range cert.Extensions {
		if ext.Critical {
			s.Critical = append(s.Critical, ext.Id.String())
		}
	}
	slices.Sort(s.Critical)
	return s
}

const (
	basicConstraints = "2.5.29.19"
	keyUsage         = "2.5.29.15"
)

func TestANewAuthorityHasTheAgreedShape(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		key       pki.KeyParams
		signature x509.SignatureAlgorithm
	}{
		"RSA":       {pki.KeyParams{Algorithm: pki.RSA, Size: 2048}, x509.SHA512WithRSA},
		"ECDSA 256": {pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, x509.ECDSAWithSHA256},
		"ECDSA 384": {pki.KeyParams{Algorithm: pki.ECDSA, Size: 384}, x509.ECDSAWithSHA384},
		"ECDSA 521": {pki.KeyParams{Algorithm: pki.ECDSA, Size: 521}, x509.ECDSAWithSHA512},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, err := pki.NewCA(pki.CASpec{
				Subject: pki.Subject{Organization: "io.strimzi", CommonName: "cluster-ca v0"}, Key: tc.key, Validity: 365 * day, Now: noon(),
			})
			if err != nil {
				t.Fatal(err)
			}
			want := shape{
				Subject: "CN=cluster-ca v0,O=io.strimzi", Issuer: "CN=cluster-ca v0,O=io.strimzi", Signature: tc.signature,
				NotBefore: noon().Add(-15 * time.Minute), NotAfter: noon().Add(365 * day),
				IsCA: true, PathLen: pki.MaxCrosses, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, Critical: []string{keyUsage, basicConstraints},
			}
			if diff := cmp.Diff(want, shapeOf(ca.Certificate())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(ca.Certificate().SerialNumber.Bytes()); n != 20 {
				t.Errorf("the serial number has %d bytes, want 20", n)
			}
			if len(ca.Certificate().SubjectKeyId) != 20 {
				t.Error("no subject key identifier")
			}
		})
	}
}

func TestTheOrganisationIsEncodedBeforeTheCommonName(t *testing.T) {
	t.Parallel()
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(newCA(t, "cluster-ca v0").Certificate().RawSubject, &rdns); err != nil {
		t.Fatal(err)
	}
	if len(rdns) != 2 || rdns[0][0].Value != "io.strimzi" || rdns[1][0].Value != "cluster-ca v0" {
		t.Errorf("encoded as %v", rdns)
	}
}

func TestSerialNumbersDiffer(t *testing.T) {
	t.Parallel()
	if newCA(t, "a").Certificate().SerialNumber.Cmp(newCA(t, "a").Certificate().SerialNumber) == 0 {
		t.Error("two certificates have one serial number")
	}
}

func TestRenewalVerifiesOldLeavesAndOldTrustVerifiesNewOnes(t *testing.T) {
	t.Parallel()
	old := newCA(t, "a")
	later := noon().Add(340 * day)
	renewed, err := pki.RenewCA(old.Certificate(), old.Key(), 365*day, later)
	if err != nil {
		t.Fatal(err)
	}
	oldLeaf := issue(t, old, func() pki.LeafSpec { s := leafSpec(t); s.Validity = 365 * day; return s }())
	newLeaf := issue(t, renewed, func() pki.LeafSpec { s := leafSpec(t); s.Now = later; return s }())
	if err := pki.Verify([]*x509.Certificate{oldLeaf}, []*x509.Certificate{renewed.Certificate()}, later); err != nil {
		t.Errorf("new trust refuses an old leaf: %v", err)
	}
	if err := pki.Verify([]*x509.Certificate{newLeaf}, []*x509.Certificate{old.Certificate()}, later); err != nil {
		t.Errorf("old trust refuses a new leaf: %v", err)
	}
	if !bytes.Equal(renewed.Certificate().RawSubject, old.Certificate().RawSubject) {
		t.Error("the subject changed")
	}
	if diff := cmp.Diff(old.Certificate().SubjectKeyId, renewed.Certificate().SubjectKeyId); diff != "" {
		t.Errorf("the subject key identifier changed: %s", diff)
	}
	if !renewed.Certificate().NotAfter.Equal(later.Add(365 * day)) {
		t.Errorf("ends at %s", renewed.Certificate().NotAfter)
	}
}

func TestRenewalNeedsTheKeyOfTheCertificate(t *testing.T) {
	t.Parallel()
	if _, err := pki.RenewCA(newCA(t, "a").Certificate(), newKey(t, small()), day, noon()); err == nil {
		t.Error("renewed with another key")
	}
}

func TestACrossCertificateServesThoseWhoTrustOnlyTheOldAuthority(t *testing.T) {
	t.Parallel()
	old, fresh := newCA(t, "cluster-ca v0"), newCA(t, "cluster-ca v1")
	now := noon().Add(100 * day)
	cross, err := pki.CrossSign(old, fresh.Certificate(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := shape{
		Subject: fresh.Certificate().Subject.String(), Issuer: old.Certificate().Subject.String(), Signature: x509.ECDSAWithSHA256,
		NotBefore: now.Add(-15 * time.Minute), NotAfter: old.Certificate().NotAfter,
		IsCA: true, PathLen: pki.MaxCrosses - 1, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, Critical: []string{keyUsage, basicConstraints},
	}
	if diff := cmp.Diff(want, shapeOf(cross)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if pki.KeyIDOf(cross) != fresh.Key().ID() {
		t.Error("it is not about the new key")
	}
	spec := leafSpec(t)
	spec.Now = now
	leaf := issue(t, fresh, spec)
	for name, anchor := range map[string]pki.Authority{"old": old, "new": fresh} {
		if err := pki.Verify([]*x509.Certificate{leaf, cross}, []*x509.Certificate{anchor.Certificate()}, now, pki.ServerAuth, pki.ClientAuth); err != nil {
			t.Errorf("%s trust refuses leaf and cross certificate: %v", name, err)
		}
	}
	if err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{old.Certificate()}, now); err == nil {
		t.Error("old trust accepts the leaf without the cross certificate")
	}
}

func TestAnAuthorityWithPathLengthZeroCannotCrossSign(t *testing.T) {
	t.Parallel()
	limited, err := pki.NewAuthority(handMade(t, func(c *x509.Certificate) { c.MaxPathLenZero = true }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.CrossSign(limited, newCA(t, "newest").Certificate(), noon()); err == nil {
		t.Error("a path length of 0 was overstepped")
	}
}

func TestARowOfCrossCertificatesServesEveryAuthorityBefore(t *testing.T) {
	t.Parallel()
	authorities := []pki.Authority{newCA(t, "cluster-ca v0")}
	var row []*x509.Certificate
	for i := range pki.MaxCrosses + 1 {
		next := newCA(t, "cluster-ca v"+strconv.Itoa(i+1))
		cross, err := pki.CrossSign(authorities[i], next.Certificate(), noon())
		if err != nil {
			t.Fatal(err)
		}
		authorities, row = append(authorities, next), append([]*x509.Certificate{cross}, row...)
		presented := append([]*x509.Certificate{issue(t, next, leafSpec(t))}, row...)
		for j, anchor := range authorities {
			within := i+1-j <= pki.MaxCrosses
			if err := pki.Verify(presented, []*x509.Certificate{anchor.Certificate()}, noon(), pki.ServerAuth); (err == nil) != within {
				t.Errorf("after %d replacements, the authority before the %dth: %v", i+1, j+1, err)
			}
		}
	}
}

func TestACrossCertificateEndsWithTheIncomingAuthority(t *testing.T) {
	t.Parallel()
	old := newCA(t, "old")
	fresh, err := pki.NewCA(pki.CASpec{Subject: pki.Subject{CommonName: "new"}, Key: small(), Validity: 10 * day, Now: noon()})
	if err != nil {
		t.Fatal(err)
	}
	cross, err := pki.CrossSign(old, fresh.Certificate(), noon())
	if err != nil || !cross.NotAfter.Equal(fresh.Certificate().NotAfter) {
		t.Errorf("ends at %s, %v", cross.NotAfter, err)
	}
}

// handMade is a self-signed certificate in a form that Keyturn does not make.
func handMade(t *testing.T, change func(*x509.Certificate)) (*x509.Certificate, pki.PrivateKey) {
	t.Helper()
	key := newKey(t, small())
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: noon(), NotAfter: noon().Add(365 * day),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}
	change(tmpl)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Signer().Public(), key.Signer())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestRenewalKeepsASubjectThatKeyturnWouldEncodeOtherwise(t *testing.T) {
	t.Parallel()
	raw, err := asn1.Marshal(pkix.RDNSequence{
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "the name comes first"}},
		{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "and then the organisation"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	old, key := handMade(t, func(tmpl *x509.Certificate) { tmpl.RawSubject = raw })
	renewed, err := pki.RenewCA(old, key, 365*day, noon())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(renewed.Certificate().RawSubject, raw) || !bytes.Equal(renewed.Certificate().RawIssuer, raw) {
		t.Error("the subject was encoded again")
	}
}

func TestACertificateThatMayNotSignIsNoAuthority(t *testing.T) {
	t.Parallel()
	cert, key := handMade(t, func(tmpl *x509.Certificate) { tmpl.KeyUsage = x509.KeyUsageDigitalSignature })
	if _, err := pki.NewAuthority(cert, key); err == nil {
		t.Error("its key usage was not looked at")
	}
}

func TestAnExpiredAuthorityCannotCrossSign(t *testing.T) {
	t.Parallel()
	if _, err := pki.CrossSign(newCA(t, "old"), newCA(t, "new").Certificate(), noon().Add(366*day)); err == nil {
		t.Error("signed after its end")
	}
}

func TestAnAuthorityNeedsACertificateThatMaySign(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	key := newKey(t, small())
	leaf, err := ca.Issue(key.Signer().Public(), leafSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.NewAuthority(leaf, key); err == nil {
		t.Error("a leaf became an authority")
	}
	if _, err := pki.NewAuthority(ca.Certificate(), key); err == nil {
		t.Error("a foreign key became an authority's")
	}
}

func TestALeafHasTheAgreedShape(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "cluster-ca v0")
	leaf := issue(t, ca, leafSpec(t))
	want := shape{
		Subject: "CN=my-kafka,O=io.strimzi", Issuer: "CN=cluster-ca v0,O=io.strimzi", Signature: x509.ECDSAWithSHA256,
		NotBefore: noon().Add(-15 * time.Minute), NotAfter: noon().Add(90 * day),
		PathLen: -1, KeyUsage: x509.KeyUsageDigitalSignature, Critical: []string{keyUsage, basicConstraints},
	}
	if diff := cmp.Diff(want, shapeOf(leaf)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, leaf.ExtKeyUsage); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(ca.Certificate().SubjectKeyId, leaf.AuthorityKeyId); diff != "" {
		t.Errorf("authority key identifier: %s", diff)
	}
	if !pki.HasSubject(leaf, leafSpec(t).Subject) {
		t.Error("the subject is not recognised")
	}
	for _, other := range []pki.Subject{{CommonName: "my-kafka"}, {Organization: "io.strimzi"}, {Organization: "io.strimzi", CommonName: "my-kafka2"}} {
		if pki.HasSubject(leaf, other) {
			t.Errorf("the subject passes for %s", other)
		}
	}
}

func TestAnRSALeafMayEncipherKeys(t *testing.T) {
	t.Parallel()
	key := newKey(t, pki.DefaultLeafKey(pki.RSA))
	leaf, err := newCA(t, "a").Issue(key.Signer().Public(), leafSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	if leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment {
		t.Errorf("key usage %b", leaf.KeyUsage)
	}
	if !key.Matches(leaf) {
		t.Error("the leaf is about another key")
	}
}

func TestALeafNeitherOutlivesNorPrecedesItsAuthority(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	spec := leafSpec(t)
	spec.Validity = 3650 * day
	if leaf := issue(t, ca, spec); !leaf.NotAfter.Equal(ca.Certificate().NotAfter) {
		t.Errorf("the leaf ends at %s, its CA at %s", leaf.NotAfter, ca.Certificate().NotAfter)
	}
	spec.Now = noon().Add(-10 * time.Minute)
	if leaf := issue(t, ca, spec); leaf.NotBefore.Before(ca.Certificate().NotBefore) {
		t.Errorf("the leaf begins at %s, its CA at %s", leaf.NotBefore, ca.Certificate().NotBefore)
	}
}

func TestImpossibleLeavesAreRefused(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	public := newKey(t, small()).Signer().Public()
	tests := map[string]func(*pki.LeafSpec){
		"after the end of the CA": func(s *pki.LeafSpec) { s.Now = noon().Add(366 * day) },
		"no common name":          func(s *pki.LeafSpec) { s.Subject.CommonName = "" },
		"a common name of 65":     func(s *pki.LeafSpec) { s.Subject.CommonName = string(make([]byte, 65)) },
		"no usage":                func(s *pki.LeafSpec) { s.Usages = nil },
		"an unknown usage":        func(s *pki.LeafSpec) { s.Usages = []pki.Usage{"code signing"} },
		"no validity":             func(s *pki.LeafSpec) { s.Validity = 0 },
		"a name that is none":     func(s *pki.LeafSpec) { s.SANs.DNS = []string{"a b"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := leafSpec(t)
			change(&spec)
			if _, err := ca.Issue(public, spec); err == nil {
				t.Error("issued")
			}
		})
	}
	if _, err := (pki.Authority{}).Issue(public, leafSpec(t)); err == nil {
		t.Error("issued by no authority")
	}
}
