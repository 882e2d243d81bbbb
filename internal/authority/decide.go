package authority

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// Decide says what happens to one authority, or what it takes to say that. The error is an
// *InvalidResourceError when a person has to act; then nothing is to be written, and
// Stand says how a cluster that runs goes on.
func Decide(in Input) (Decision, error) {
	if problems := in.Spec.problems(in.Names.Field); len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	switch in.Spec.Source {
	case UserProvided:
		return decideUserProvided(in)
	case Outside:
		return decideOutside(in)
	default:
		return decideGenerated(in)
	}
}

// decideGenerated decides about a CA that Keyturn makes.
func decideGenerated(in Input) (Decision, error) {
	o, problems := observe(in)
	if len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	d := newDecider(in, o)
	for _, act := range d.acts() {
		err := act()
		if demanded, is := errors.AsType[*demandError](err); is {
			return Decision{Demand: &demanded.demand}, nil
		}
		if err != nil {
			return Decision{}, fmt.Errorf("%s of %s: %w", in.Names.Authority, in.Names.Cluster, err)
		}
		if d.unmade {
			return o.held(in)
		}
	}
	return d.decision(), nil
}

// acts are what a decision consists of, in their order. While the cluster is paused
// it is only told what there is.
func (d *decider) acts() []func() error {
	if d.in.Paused {
		return []func() error{d.findPresent, d.raiseGenerations, d.crossSign, d.listKeys}
	}
	return []func() error{d.findPresent, d.raiseGenerations, d.abort, d.renewIfDue, d.replaceIfDue, d.crossSign, d.listKeys}
}

// decider makes the decision about a generated authority, act by act.
type decider struct {
	in     Input
	making Making
	o      observed
	d      Decision
	// found is the present certificate before anything was done about it; nil
	// when it was made in this decision.
	found *x509.Certificate
	// retired are the dated keys that stay.
	retired []retiredKey
	// crosses are the unexpired cross certificates for all keys at hand.
	crosses []*x509.Certificate
	// aborted is true when a replacement, or the request for one, is given up in this decision.
	aborted bool
	// beginning is true when nothing of the past is kept.
	beginning bool
	// unmade is true when there is no present certificate, and none may be made now.
	unmade bool
}

func newDecider(in Input, o observed) *decider {
	d := &decider{in: in, o: o, d: Decision{
		Pending:        o.pending,
		Distrust:       in.asks(DistrustAnnotation),
		CertGeneration: o.certGen,
		KeyGeneration:  o.keyGen,
		Warnings:       slices.Clone(o.warnings),
	}}
	if in.Making != nil {
		d.making = *in.Making
	}
	for _, retired := range o.retired {
		if in.Now.Before(retired.end) {
			d.retired = append(d.retired, retired)
		}
	}
	for _, cross := range o.crosses {
		d.keepCross(cross)
	}
	if o.pending != nil {
		for _, cross := range o.pending.Cross {
			d.keepCross(cross)
		}
	}
	d.recallCrosses()
	return d
}

// recallCrosses takes what nodes send along for an authority of which the key Secret
// holds no cross certificate: those of a CA that a user has handed over.
func (d *decider) recallCrosses() {
	stored := slices.Clone(d.crosses)
	for _, cert := range d.in.sentAlong() {
		if !contains(d.o.known(), cert) && len(ofKey(stored, pki.KeyIDOf(cert))) == 0 {
			d.keepCross(cert)
		}
	}
}

func (d *decider) keepCross(cross *x509.Certificate) {
	if d.in.Now.Before(cross.NotAfter) && !contains(d.crosses, cross) {
		d.crosses = append(d.crosses, cross)
	}
}

// findPresent finds or makes the present certificate.
func (d *decider) findPresent() error {
	switch {
	case !d.o.key.IsZero():
		return d.findCertificate()
	case d.o.pending == nil && !d.isLost():
		return d.ifNotPaused(d.create)
	}
	if d.d.Certificate = d.o.outgoing(d.in.Now); d.d.Certificate == nil {
		if problem := lost(d.in); problem != nil {
			return invalid(*problem)
		}
		return d.ifNotPaused(d.beginAgain)
	}
	d.found = d.d.Certificate
	d.d.KeyGeneration = max(d.d.KeyGeneration, d.in.Names.generation(d.found))
	if len(d.o.bundle) == 0 {
		d.d.CertGeneration = max(d.d.CertGeneration, d.d.KeyGeneration)
		d.note(Restored, d.found, d.in.certObject()+" was lost; the certificate was restored from what pods trust")
	}
	return nil
}

// isLost distinguishes a lost key from a new cluster: something still depends on a lost one. What pods
// would mount proves nothing alone while there are no pods, because any client may have put it there.
func (d *decider) isLost() bool {
	return len(d.in.Evidence.Dependants) > 0 || len(d.o.trusted) > 0 && len(d.o.bundle) > 0
}

// findCertificate finds the certificate of a key that is there.
func (d *decider) findCertificate() error {
	if cert := d.o.entryOfKey(); cert != nil {
		if err := d.take(cert); err != nil {
			return err
		}
		d.finishInterrupted()
		return nil
	}
	anchor := d.o.trustedOfKey(d.o.key)
	switch {
	case len(d.o.bundle) > 0:
		err := d.take(anchor)
		d.finishInterrupted()
		return err
	case anchor != nil && d.in.Now.Before(anchor.NotAfter):
		d.note(Restored, anchor, d.in.certObject()+" had no certificate; it was restored from what pods trust")
		return d.take(anchor)
	default:
		return d.ifNotPaused(func() error { return d.recreate(anchor) })
	}
}

// ifNotPaused has a present certificate made where there is none, or notes that there is none while the cluster is paused.
func (d *decider) ifNotPaused(makeOne func() error) error {
	if d.in.Paused {
		d.unmade = true
		return nil
	}
	return makeOne()
}

// take goes on with a certificate that exists.
func (d *decider) take(cert *x509.Certificate) error {
	ca, err := pki.NewAuthority(cert, d.o.key)
	if err != nil {
		return invalid(Problem{Object: d.in.certObject(), Wrong: err.Error(), Remedy: "restore the CA certificate"})
	}
	d.d.Authority, d.d.Certificate, d.found = ca, cert, cert
	return nil
}

// finishInterrupted recognises the crash between the two writes of a promotion, or
// of its reversal: the key Secret says already who is present, and the
// certificate Secret does not.
func (d *decider) finishInterrupted() {
	switch {
	case d.swapInterrupted():
		d.d.CertGeneration++
		d.note(ReplacementAborted, d.d.Certificate, "an interrupted abort was completed: the previous CA is in use again")
	case d.promotionInterrupted():
		d.d.CertGeneration++
		d.note(d.in.Names.KeyReplaced, d.d.Certificate, "an interrupted replacement was completed")
	}
}

// swapInterrupted: the present certificate is still filed as a retired one.
func (d *decider) swapInterrupted() bool {
	filed := d.o.dated[DatedCertKey(d.d.Certificate)]
	return filed != nil && sameCertificate(filed, d.d.Certificate)
}

// promotionInterrupted: ca.crt holds an authority that was made before the present
// one and is not yet filed as retired. One that was made later is no sign: it is
// pending, or its replacement was aborted before it was ever present.
func (d *decider) promotionInterrupted() bool {
	return slices.ContainsFunc(d.o.bundle, func(cert *x509.Certificate) bool {
		_, filed := d.o.dated[DatedCertKey(cert)]
		ours := d.isRetired(cert) || slices.ContainsFunc(d.o.trusted, func(a Anchor) bool { return sameCertificate(a.Certificate, cert) })
		return !filed && ours && d.in.Now.Before(cert.NotAfter) && !d.o.key.Matches(cert) &&
			d.in.Names.generation(cert) < d.in.Names.generation(d.d.Certificate)
	})
}

func (d *decider) isRetired(cert *x509.Certificate) bool {
	return slices.ContainsFunc(d.retired, func(r retiredKey) bool { return r.key.Matches(cert) })
}

func (d *decider) create() error {
	d.beginning = true
	d.d.KeyGeneration, d.d.CertGeneration = d.firstUnused(), d.o.seenCertGen+1
	return d.makeAuthority(d.d.KeyGeneration, Created, "the first one was made, because the cluster had none")
}

// beginAgain makes a CA in place of a lost one that only its dependants remember. There is no CA to
// replace step by step, so nothing is pending.
func (d *decider) beginAgain() error {
	why := "key and certificate were lost while the cluster depends on them, and no copy is left"
	if d.o.pending == nil {
		d.d.KeyGeneration = d.firstUnused()
		d.d.CertGeneration++
		return d.makeAuthority(d.d.KeyGeneration, d.in.Names.KeyReplaced, why)
	}
	d.d.Authority, d.d.Certificate, d.d.Pending = d.o.pending.Incoming, d.o.pending.Incoming.Certificate(), nil
	d.d.KeyGeneration = max(d.d.KeyGeneration+1, d.in.Names.generation(d.d.Certificate))
	d.d.CertGeneration++
	d.note(d.in.Names.KeyReplaced, d.d.Certificate, why)
	return nil
}

func (d *decider) makeAuthority(name Generation, kind TransitionKind, why string) error {
	ca, err := d.newCA(name)
	if err != nil {
		return fmt.Errorf("making a new authority: %w", err)
	}
	d.d.Authority, d.d.Certificate = ca, ca.Certificate()
	d.note(kind, ca.Certificate(), why)
	return nil
}

// recreate makes a certificate for a key that has lost its own. An expired anchor of the same key lends
// its subject, even one that Keyturn has not made.
func (d *decider) recreate(anchor *x509.Certificate) error {
	d.d.CertGeneration = max(d.o.seenCertGen+1, d.o.keyGen)
	var ca pki.Authority
	var err error
	if anchor != nil {
		ca, err = d.renewed(anchor, d.o.key)
	} else {
		ca, err = d.signed(d.o.key, d.d.KeyGeneration)
	}
	if err != nil {
		return fmt.Errorf("issuing the certificate again: %w", err)
	}
	d.d.Authority, d.d.Certificate = ca, ca.Certificate()
	d.note(Recreated, ca.Certificate(), d.in.certObject()+" had no certificate; a new one was issued from the same key")
	return nil
}

// everything is all that is known and what was made in this decision.
func (d *decider) everything() []*x509.Certificate {
	all := d.o.known()
	if d.d.Certificate != nil {
		all = append(all, d.d.Certificate)
	}
	return all
}

func (d *decider) note(kind TransitionKind, cert *x509.Certificate, why string) {
	d.d.Transitions = append(d.d.Transitions, Transition{Kind: kind, Certificate: pki.FingerprintOf(cert), Why: why})
}

// decision completes what the acts have left.
func (d *decider) decision() Decision {
	sortRemarks(d.d.Warnings)
	d.d.RenewalAt = d.d.Certificate.NotAfter.Add(-d.in.Spec.Renewal())
	d.d.Published, d.d.Retired = d.published(), d.kept()
	d.d.settling = &settling{in: d.in, o: d.o, retired: d.retired, beginning: d.beginning}
	return d.d
}

// published is what applications can read. After the loss of the certificate
// Secret it is what they read last, as far as that is known.
func (d *decider) published() []*x509.Certificate {
	if d.beginning {
		return nil
	}
	published := slices.Clone(d.o.bundle)
	if len(published) == 0 {
		published = d.readLast()
	}
	for _, name := range sortedKeys(d.o.dated) {
		if !contains(published, d.o.dated[name]) {
			published = append(published, d.o.dated[name])
		}
	}
	return published
}

// kept are the certificates of authorities that were present before this one, or are trusted beside it. The one to come is neither.
func (d *decider) kept() []*x509.Certificate {
	if d.beginning {
		return nil
	}
	var kept []*x509.Certificate
	keep := func(cert *x509.Certificate) {
		if pki.KeyIDOf(cert) != pki.KeyIDOf(d.d.Certificate) && d.in.Now.Before(cert.NotAfter) && !contains(kept, cert) {
			kept = append(kept, cert)
		}
	}
	for _, name := range sortedKeys(d.o.dated) {
		keep(d.o.dated[name])
	}
	for _, retired := range d.retired {
		for _, cert := range retired.filed {
			keep(cert)
		}
	}
	target := pki.KeyIDOf(d.d.Target())
	for _, cert := range d.o.recalled {
		if pki.KeyIDOf(cert) != target {
			keep(cert)
		}
	}
	return kept
}

// readLast is what applications read before the certificate Secret was lost: the
// present certificate, or one of its key, and what nodes were told to trust. What
// pods mount says the rest.
func (d *decider) readLast() []*x509.Certificate {
	read := []*x509.Certificate{d.d.Certificate}
	for _, cert := range d.o.recalled {
		if !contains(read, cert) && d.in.Now.Before(cert.NotAfter) {
			read = append(read, cert)
		}
	}
	return read
}

func contains(certs []*x509.Certificate, cert *x509.Certificate) bool {
	return slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return sameCertificate(c, cert) })
}
