package apitest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
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

func TestAnIssuerThatIsGoneIsNamedSoonAfterACertificateWasAskedFor(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	w.classic() // nobody can cross-sign
	w.elsewhere.unanswered = "Issuer kafka/company does not exist."
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	next := caNamed(t, "company two", 1000*authority.Day)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.run(200)

	w.clock.SetTime(w.clock.Now().Add(issuer.Patience))
	w.run(3)

	w.wantCondition(condition.Warning, "Secret my-dual-0", "no new certificate is issued (Issuer kafka/company does not exist.)", "stays in use")
	w.wantReady()
	if want := []string{"my-dual-0"}; !slices.Equal(w.elsewhere.renewed, want) {
		t.Errorf("issued again were %v, want %v", w.elsewhere.renewed, want)
	}
}

// Applications read ca.crt: what it has just received is not to be said to have left it.
func TestACAThatIsAddedToTheBundleIsNotSaidToBeRemoved(t *testing.T) {
	t.Parallel()
	w, old := outsideCluster(t)
	w.nobodyReads()
	next := caNamed(t, "company two", 1000*authority.Day)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(old.Certificate(), next.Certificate()))
	w.settle()
	if w.events.says("was removed from ca.crt") {
		t.Errorf("nothing left ca.crt, and events are %q", w.events.notes)
	}
	w.elsewhere.ca = next
	w.elsewhere.renew()
	w.settle()
	w.wantLeavesOf(next)
	if !w.events.says("my-dual-0", "SignerChanged", "company two") {
		t.Errorf("events are %q, want one that names the other CA", w.events.notes)
	}
	w.elsewhere.renew()
	w.settle()
	if !w.events.says("my-dual-0", "Reissued") || w.events.says("Expiring") {
		t.Errorf("events are %q, want one of a certificate that was issued again", w.events.notes)
	}
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
