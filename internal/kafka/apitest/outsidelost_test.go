package apitest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// What is lost, or has ended, while the issuer of a cluster gets another key.

func TestAClusterWhoseCertificatesHaveAllExpiredGoesOnWithTheNextKeyOfItsIssuer(t *testing.T) {
	t.Parallel()
	for name, bundle := range map[string]func(old, next pki.Authority) []byte{
		"the next CA alone is announced": func(_, next pki.Authority) []byte { return pki.EncodeBundle(next.Certificate()) },
		"both CAs are announced": func(old, next pki.Authority) []byte {
			return pki.EncodeBundle(old.Certificate(), next.Certificate())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, old := outsideCluster(t)
			w.classic() // nobody can cross-sign
			w.clock.SetTime(w.clock.Now().Add(400 * authority.Day))
			next := caNamed(t, issuersTwo, longLasting)
			w.replaceData(bundleSecret, authority.CertKey, bundle(old, next))
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.unsafe = true // what has expired is rejected whatever the operator does
			w.startOperator()
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantReady()
			w.wantLeavesOf(next)
		})
	}
}
