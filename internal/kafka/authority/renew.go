package authority

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// keepOrRenew serves requests and expiry for a pair that is in order.
func (p *plan) keepOrRenew() error {
	if p.in.Spec.Policy == ReplaceKey && p.inRenewalPeriod() && !p.in.KeySecret.asks(ForceReplaceAnnotation) {
		p.waitForReplacement(ByExpiry)
	}
	cause, due := p.renewalDue()
	if !due {
		return p.keep()
	}
	if !p.mayActNow(cause) {
		p.wait(RenewAct, cause, WindowClosed)
		return p.keep()
	}
	return p.renew(cause)
}

// keepReplacementRequest records a person's request for a new key. It is never
// dropped for another request and never carried out in passing: replacing a key
// needs the evidence of every peer.
func (p *plan) keepReplacementRequest() {
	if p.in.KeySecret.asks(ForceReplaceAnnotation) {
		p.waitForReplacement(ByAnnotation)
	}
}

func (p *plan) waitForReplacement(cause Cause) {
	if p.in.Window.Open || p.mustNotWait() {
		p.wait(ReplaceAct, cause, ReplacementRequested)
		return
	}
	p.wait(ReplaceAct, cause, WindowClosed)
}

// renewalDue says whether a new certificate of the same key is due. With the
// policy to replace the key it is due only as a last resort, half-way through
// the renewal period: an expired CA is worse than an old key.
func (p *plan) renewalDue() (Cause, bool) {
	if p.in.CertSecret.asks(ForceRenewAnnotation) {
		return ByAnnotation, true
	}
	if p.in.Spec.Policy == ReplaceKey {
		return ByExpiry, !p.in.Now.Before(p.o.cert.NotAfter.Add(-p.in.Spec.Renewal() / 2))
	}
	return ByExpiry, p.inRenewalPeriod()
}

func (p *plan) inRenewalPeriod() bool {
	return p.in.Now.After(p.o.cert.NotAfter.Add(-p.in.Spec.Renewal()))
}

func (p *plan) mayActNow(cause Cause) bool {
	return p.in.Window.Open || (cause == ByExpiry || p.inRenewalPeriod()) && p.mustNotWait()
}

func (p *plan) mustNotWait() bool {
	return mustNotWait(p.in.Window, p.present().NotAfter, p.in.Spec.Renewal(), p.in.Now)
}

// mustNotWait tells whether a certificate would end, or come within the last
// call of its end, before the next maintenance window.
func mustNotWait(w Window, notAfter time.Time, renewal time.Duration, now time.Time) bool {
	deadline := notAfter.Add(-lastCall(renewal))
	if !now.Before(deadline) {
		return true
	}
	return now.After(notAfter.Add(-renewal)) && w.Next.After(deadline)
}

// present is the certificate that is stored or, when there is none, the one that
// is being made.
func (p *plan) present() *x509.Certificate {
	if p.o.cert != nil {
		return p.o.cert
	}
	return p.d.Certificate
}

func (p *plan) renew(cause Cause) error {
	ca, err := pki.RenewCA(p.o.cert, p.o.key, p.in.Spec.Validity(), p.in.Now)
	if err != nil {
		return fmt.Errorf("renewing the %s of %s: %w", p.in.Kind, p.in.Cluster, err)
	}
	p.d.CertGeneration++
	p.take(ca, Renewed, p.whyRenewed(cause))
	return nil
}

func (p *plan) whyRenewed(cause Cause) string {
	end := p.o.cert.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case cause == ByAnnotation:
		return "asked for by " + ForceRenewAnnotation + " on " + p.in.certObject()
	case p.in.Now.After(p.o.cert.NotAfter):
		return "the certificate expired at " + end
	case p.in.Spec.Policy == ReplaceKey:
		return "the certificate ends at " + end + " and the replacement of its key has not begun"
	default:
		return fmt.Sprintf("the certificate ends at %s, within %d days", end, p.in.Spec.renewalDays())
	}
}

func (p *plan) wait(act Act, cause Cause, obstacle Obstacle) {
	w := Waiting{Act: act, Cause: cause, Obstacle: obstacle}
	what := "renewal of the " + string(p.in.Kind)
	if act == ReplaceAct {
		what = "replacement of the key of the " + string(p.in.Kind)
	}
	why := "asked for by annotation"
	if cause == ByExpiry {
		why = "due because the certificate ends at " + p.present().NotAfter.UTC().Format(time.RFC3339)
	}
	switch {
	case obstacle == ReplacementRequested:
		w.Message = what + ", " + why + ", is recorded and has not begun"
	case p.in.Window.Next.IsZero():
		w.Message = what + ", " + why + ", waits for a maintenance window, and none is in sight: check spec.maintenanceTimeWindows"
	default:
		w.Until = p.in.Window.Next
		w.Message = what + ", " + why + ", waits for the maintenance window at " + w.Until.UTC().Format(time.RFC3339)
	}
	p.d.Waiting = append(p.d.Waiting, w)
}
