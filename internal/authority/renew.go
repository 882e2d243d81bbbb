package authority

import (
	"fmt"
	"time"
)

// renewIfDue makes a new certificate for the present key, also while a replacement of that key is under
// way, because no peer accepts an expired CA.
func (d *decider) renewIfDue() error {
	if d.d.Authority.IsZero() {
		if d.in.asks(d.in.Names.ForceRenew) {
			d.wait(RenewAct, ByAnnotation, ReplacementRunning)
		}
		return nil
	}
	if d.found == nil {
		return nil // it was made just now
	}
	cause, due := d.renewalDue()
	switch {
	case !due:
		return nil
	case !d.mayRenewNow(cause):
		d.wait(RenewAct, cause, WindowClosed)
		return nil
	default:
		return d.renew(cause)
	}
}

// renewalDue says whether a new certificate of the same key is due. With the
// policy to replace the key it is due only as a last resort, half-way through
// the renewal period: an expired CA is worse than an old key.
func (d *decider) renewalDue() (Cause, bool) {
	if d.in.asks(d.in.Names.ForceRenew) {
		return ByAnnotation, true
	}
	if d.in.Spec.Policy == ReplaceKey {
		return ByExpiry, !d.in.Now.Before(d.d.Certificate.NotAfter.Add(-d.in.Spec.Renewal() / 2))
	}
	return ByExpiry, d.inRenewalPeriod()
}

// inRenewalPeriod is about the certificate as it was found: a renewal in this
// decision does not take back what else is due.
func (d *decider) inRenewalPeriod() bool {
	return d.found != nil && d.in.Now.After(d.found.NotAfter.Add(-d.in.Spec.Renewal()))
}

func (d *decider) mayRenewNow(cause Cause) bool {
	return d.in.Window.Open || (cause == ByExpiry || d.inRenewalPeriod()) && d.mustNotWait()
}

func (d *decider) mustNotWait() bool {
	return d.found != nil && mustNotWait(d.in.Window, d.found.NotAfter, d.in.Spec.Renewal(), d.in.Now)
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

// latest is when what waits for a maintenance window is done at the latest: in the window, or at the last call where none is
// scheduled.
func latest(w Window, notAfter time.Time, renewal time.Duration) time.Time {
	if w.Next.IsZero() {
		return notAfter.Add(-lastCall(renewal))
	}
	return w.Next
}

// lastCall is how close to its end a certificate may come while it waits for a
// maintenance window that is not in sight.
func lastCall(renewal time.Duration) time.Duration { return min(Day, renewal/2) }

func (d *decider) renew(cause Cause) error {
	why := d.whyRenewed(cause)
	ca, err := d.renewed(d.d.Certificate, d.d.Authority.Key())
	if err != nil {
		return fmt.Errorf("renewing: %w", err)
	}
	d.d.CertGeneration++
	d.d.Authority, d.d.Certificate = ca, ca.Certificate()
	d.note(Renewed, ca.Certificate(), why)
	return nil
}

func (d *decider) whyRenewed(cause Cause) string {
	end := d.d.Certificate.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case cause == ByAnnotation:
		return "asked for by " + d.in.Names.ForceRenew + " on " + d.in.certObject()
	case d.in.Now.After(d.d.Certificate.NotAfter):
		return "the certificate expired at " + end
	case d.in.Spec.Policy == ReplaceKey:
		return "the certificate expires at " + end + " and the replacement of its key has not finished"
	default:
		return fmt.Sprintf("the certificate expires at %s, within %s", end, inWords(d.in.Spec.Renewal()))
	}
}

func inWords(d time.Duration) string {
	if d%Day == 0 {
		return fmt.Sprintf("%d days", d/Day)
	}
	return d.String()
}

func (d *decider) wait(act Act, cause Cause, obstacle Obstacle) {
	w := Waiting{Act: act, Cause: cause, Obstacle: obstacle}
	what := "renewal of the " + d.in.Names.Authority
	if act == ReplaceAct {
		what = "replacement of the key of the " + d.in.Names.Authority
	}
	why := "asked for by annotation"
	if cause == ByExpiry {
		why = "due because the certificate expires at " + d.found.NotAfter.UTC().Format(time.RFC3339)
	}
	switch {
	case obstacle == ReplacementRunning && d.d.Authority.IsZero():
		w.Message = what + ", " + why + ", waits for the replacement of the lost key"
	case obstacle == ReplacementRunning && d.hasUnserved():
		w.Message = what + ", " + why + ", waits for the replacement in progress; let it finish: annotating Secret " +
			d.in.Names.KeySecret + " with " + AbortReplaceAnnotation + "=true withdraws the waiting request, and doing so once more aborts the replacement in progress"
	case obstacle == ReplacementRunning:
		w.Message = what + ", " + why + ", waits for the replacement in progress; let it finish, or abort it by annotating Secret " +
			d.in.Names.KeySecret + " with " + AbortReplaceAnnotation + "=true"
	case d.in.Window.Next.IsZero():
		w.Message = what + ", " + why + ", waits for a maintenance window, but none is scheduled: check " + d.in.Names.Windows
		if d.found != nil {
			w.Until = latest(d.in.Window, d.found.NotAfter, d.in.Spec.Renewal())
		}
	default:
		w.Until = d.in.Window.Next
		w.Message = what + ", " + why + ", waits for the maintenance window at " + w.Until.UTC().Format(time.RFC3339)
	}
	d.d.Waiting = append(d.d.Waiting, w)
}
