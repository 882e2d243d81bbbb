package authority

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// replaceIfDue starts a replacement that was asked for, is due, or is the only way
// on because the key is lost.
func (d *decider) replaceIfDue() error {
	why, cause, due := d.replacementDue()
	switch {
	case !due:
		return nil
	case d.d.Pending != nil:
		if cause == ByAnnotation {
			d.wait(ReplaceAct, cause, ReplacementRunning)
		}
		return nil
	case cause != "" && !d.mayReplaceNow():
		d.wait(ReplaceAct, cause, WindowClosed)
		return nil
	default:
		return d.startReplacement(why)
	}
}

// replacementDue says why and by what cause a new key is due. The cause is empty
// when there is no choice.
func (d *decider) replacementDue() (why string, cause Cause, due bool) {
	if d.pendingExpired() {
		why = "the new CA that was pending expired at " + d.d.Pending.Incoming.Certificate().NotAfter.UTC().Format(time.RFC3339) + ", before it took over"
		d.d.Pending = nil
		return why, "", true
	}
	switch {
	case d.d.Authority.IsZero() && d.d.Pending == nil:
		return d.in.keyObject() + " was lost while the cluster depends on it", "", true
	case d.aborted || d.beginning:
		return "", "", false
	case d.in.asks(d.in.Names.ForceReplace):
		return "asked for by " + d.in.Names.ForceReplace + " on " + d.in.keyObject(), ByAnnotation, true
	case d.in.Spec.Policy == ReplaceKey && d.inRenewalPeriod():
		return "the certificate expires at " + d.found.NotAfter.UTC().Format(time.RFC3339) + " and the policy is to replace its key", ByExpiry, true
	default:
		return "", "", false
	}
}

func (d *decider) pendingExpired() bool {
	return d.d.Pending != nil && d.in.Now.After(d.d.Pending.Incoming.Certificate().NotAfter)
}

// mayReplaceNow: a key that is known to be compromised does not wait for a
// maintenance window.
func (d *decider) mayReplaceNow() bool {
	return d.in.Window.Open || d.mustNotWait() || d.d.Distrust
}

// startReplacement makes the authority that is going to replace the present one.
// It changes nothing that is in use.
func (d *decider) startReplacement(why string) error {
	incoming, err := d.newCA(d.highestSeen() + 1)
	if err != nil {
		return fmt.Errorf("making the new CA: %w", err)
	}
	d.d.Pending = &Replacement{Incoming: incoming, Reason: why}
	d.note(ReplacementStarted, incoming.Certificate(), why)
	return nil
}

// abort cancels what was asked for last: a request for a new key that was not served, or else a
// replacement that can still be undone. Cancelling both takes two requests. A pending replacement that
// cannot be read is always cancelled, and the request itself is always removed.
func (d *decider) abort() error {
	if !d.in.asks(AbortReplaceAnnotation) {
		return nil
	}
	switch {
	case d.d.Authority.IsZero():
		d.refuseAbort("the key of the CA that is being replaced is lost")
	case d.hasUnserved():
		d.withdraw()
	case len(d.in.KeySecret.Data[PendingKeyKey]) > 0:
		d.aborted = true
		d.dropPending()
	default:
		return d.goBack()
	}
	return nil
}

// goBack goes back to the authority that was replaced last.
func (d *decider) goBack() error {
	name, cert, found := d.predecessor()
	if !found {
		d.refuseAbort("there is no replacement in progress whose previous CA is still trusted and has its key")
		return nil
	}
	d.aborted = true
	return d.swapBack(name, cert)
}

// hasUnserved reports whether a new key is asked for that is not yet being made. The request waits for a
// maintenance window or for another replacement. A request that distrusts the present key cannot be
// cancelled.
func (d *decider) hasUnserved() bool {
	return d.in.asks(d.in.Names.ForceReplace) && !d.d.Distrust
}

// withdraw takes off a request for a new key, and leaves everything else as it is.
func (d *decider) withdraw() {
	d.aborted = true
	d.note(ReplacementAborted, d.d.Certificate,
		"asked for by "+AbortReplaceAnnotation+"; the request "+d.in.Names.ForceReplace+" was withdrawn before a new key was made; "+d.unaffected())
}

// unaffected is what goes on after a request was withdrawn.
func (d *decider) unaffected() string {
	if d.d.Pending != nil {
		return "the replacement before it goes on"
	}
	return "the current CA stays in use"
}

func (d *decider) refuseAbort(why string) {
	d.d.Warnings = append(d.d.Warnings, Remark{
		Secret: d.in.Names.KeySecret, Part: anyPart(AbortReplaceAnnotation), Text: AbortReplaceAnnotation + " was refused: " + why,
	})
	d.note(AbortRefused, d.d.Certificate, why)
}

// dropPending gives up an authority that was never present. Peers may have been told to trust it, or may
// present its leaves, so its key stays until no peer does. After that it is forgotten.
func (d *decider) dropPending() {
	if d.o.pending == nil {
		d.note(ReplacementAborted, d.d.Certificate, "asked for by "+AbortReplaceAnnotation+"; the pending CA could not be read")
		return
	}
	pending := d.o.pending.Incoming
	d.retired = append(d.retired, retiredKey{
		name: DatedKeyKey(pending.Certificate()), end: pending.Certificate().NotAfter, text: d.in.KeySecret.Data[PendingKeyKey], key: pending.Key(),
	})
	d.d.Pending = nil
	d.note(ReplacementAborted, pending.Certificate(), "asked for by "+AbortReplaceAnnotation+"; the current CA stays in use")
}

// predecessor is the authority that the present one has replaced: made before it,
// still among the anchors that pods mount, its key at hand. One that was made
// after it was aborted itself.
func (d *decider) predecessor() (name string, cert *x509.Certificate, found bool) {
	for _, retired := range d.retired {
		anchor := d.o.trustedOfKey(retired.key)
		if anchor == nil || d.in.Names.generation(anchor) >= d.in.Names.generation(d.d.Certificate) {
			continue
		}
		if cert == nil || d.in.Names.generation(anchor) > d.in.Names.generation(cert) {
			name, cert = retired.name, anchor
		}
	}
	return name, cert, cert != nil
}

// swapBack makes a retired authority the present one again, and retires the one
// that had replaced it.
func (d *decider) swapBack(name string, cert *x509.Certificate) error {
	var kept []retiredKey
	var back pki.PrivateKey
	for _, retired := range d.retired {
		if retired.name == name {
			back = retired.key
			continue
		}
		kept = append(kept, retired)
	}
	ca, err := pki.NewAuthority(cert, back)
	if err != nil {
		return fmt.Errorf("going back to the authority that was replaced: %w", err)
	}
	replaced := d.d.Authority
	kept = append(kept, retire(replaced, d.in.KeySecret.Data[KeyKey], d.everything(), d.in.Now))
	d.retired = kept
	d.d.Authority, d.d.Certificate, d.found = ca, cert, cert
	d.d.CertGeneration++
	d.d.KeyGeneration++
	d.note(ReplacementAborted, replaced.Certificate(), "asked for by "+AbortReplaceAnnotation+"; the previous CA is in use again")
	return nil
}
