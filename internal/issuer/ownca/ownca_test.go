package ownca_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/issuertest"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func newCA(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestASelfSignedAuthorityIsAnIssuer(t *testing.T) {
	t.Parallel()
	issuertest.Run(t, func(t *testing.T) issuertest.Fixture {
		t.Helper()
		ca := newCA(t, "own")
		return issuertest.Fixture{Issuer: ownca.New(ca), Anchors: []*x509.Certificate{ca.Certificate()}, Now: noon()}
	})
}

func TestAnAuthorityBelowARootIsAnIssuerForThoseWhoTrustTheRoot(t *testing.T) {
	t.Parallel()
	issuertest.Run(t, func(t *testing.T) issuertest.Fixture {
		t.Helper()
		root, below := newCA(t, "root"), newCA(t, "issuing")
		cert, err := pki.CrossSign(root, below.Certificate(), noon())
		if err != nil {
			t.Fatal(err)
		}
		issuing, err := pki.NewAuthority(cert, below.Key(), cert)
		if err != nil {
			t.Fatal(err)
		}
		return issuertest.Fixture{Issuer: ownca.New(issuing), Anchors: []*x509.Certificate{root.Certificate()}, Now: noon()}
	}, issuertest.NamesAuthority)
}

func request() issuer.Request {
	return issuer.Request{
		Name: "user", Subject: pki.Subject{CommonName: "user"}, Usages: []pki.Usage{pki.ClientAuth},
		Validity: 48 * time.Hour, Renewal: time.Hour, Key: pki.DefaultLeafKey(pki.ECDSA), Now: noon(),
	}
}

func TestAnAuthorityWithoutItsKeyDenies(t *testing.T) {
	t.Parallel()
	outcome, err := ownca.New(pki.Authority{}).Issue(t.Context(), request())
	if denied, ok := outcome.(issuer.Denied); err != nil || !ok || !strings.Contains(denied.Why, "key of the CA") {
		t.Errorf("got %+v, %v; want Denied for the missing key", outcome, err)
	}
}

func TestAnExpiredAuthorityDenies(t *testing.T) {
	t.Parallel()
	late := request()
	late.Now = noon().Add(366 * 24 * time.Hour)
	outcome, err := ownca.New(newCA(t, "own")).Issue(t.Context(), late)
	if denied, ok := outcome.(issuer.Denied); err != nil || !ok || !strings.Contains(denied.Why, "expired") {
		t.Errorf("got %+v, %v; want Denied for the expired CA", outcome, err)
	}
}
