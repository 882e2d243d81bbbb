package issuertest_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/issuer/issuertest"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestTheSuiteLetsAnIssuerTakeItsTime(t *testing.T) {
	t.Parallel()
	issuertest.Run(t, func(t *testing.T) issuertest.Fixture {
		t.Helper()
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		ca, err := pki.NewCA(pki.CASpec{
			Subject: pki.Subject{CommonName: "slow"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		remote := issuertest.NewRemote(ownca.New(ca))
		return issuertest.Fixture{
			Issuer:  remote,
			Anchors: []*x509.Certificate{ca.Certificate()},
			Now:     now,
			Advance: func(*testing.T) { remote.Answer() },
			Refuse:  func(*testing.T) { remote.Refuse("the policy does not allow it: ask the owner of the issuer") },
			Open:    func(*testing.T) []string { return remote.Open() },
		}
	})
}
