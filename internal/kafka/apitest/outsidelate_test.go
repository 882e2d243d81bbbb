package apitest

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
)

// An issuer renews late, or gives less than it was asked for.

func TestAnIssuerThatDoesNotRenewIsNamedInTime(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	end := w.leafOf("my-dual-0").NotAfter
	w.clock.SetTime(end.Add(-31 * authority.Day))
	w.settle()
	w.wantNoWarnings()

	w.clock.SetTime(end.Add(-29 * authority.Day))
	w.settle()

	w.wantHeld("CertificatePending")
	w.wantHeld("what the status of Certificate my-dual-0 says")
	w.elsewhere.renew()
	w.settle()
	w.wantNoWarnings()
}

func TestAnIssuerThatGivesLessThanAskedForIsNamedWithWhatThatCosts(t *testing.T) {
	t.Parallel()
	ca := caNamed(t, issuersOne, longLasting)
	w := outsideWorld(t, ca)
	w.bringsBundle(ca.Certificate())
	w.elsewhere.change = func(r *issuer.Request) { r.Validity, r.Renewal = 72*time.Hour, 24*time.Hour }
	w.asksOutside(3)
	w.settle()

	w.wantHeld("CertificateShortLived")
	w.wantHeld("last 72h15m0s, and 8760h0m0s were requested")
	w.wantHeld("about 121 times a year")
	w.wantReady()

	w.elsewhere.change = nil
	w.elsewhere.renew()
	w.settle()
	w.wantNoWarnings()
}

func (w *world) wantNoWarnings() {
	w.t.Helper()
	if status := w.status(w.t.Context()); strings.Contains(status, "Warning") {
		w.t.Errorf("conditions are %s, want no warnings", status)
	}
}
