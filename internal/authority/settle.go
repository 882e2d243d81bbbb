package authority

import (
	"crypto/x509"
	"errors"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// settling is what Settle needs besides what a decision says.
type settling struct {
	in Input
	o  observed
	// retired are the dated keys that stay.
	retired []retiredKey
	// beginning is true when nothing of the past is kept.
	beginning bool
	// bundle are the CAs that a user names for an Outside authority.
	bundle []*x509.Certificate
}

// Settle says what the two CA Secrets shall hold. The pending authority becomes
// the present one when the plan lets it lead ca.crt and sign leaves; a
// replacement that starts in this very decision is written as pending first.
func (d Decision) Settle(plan Plan) (Settled, error) {
	if d.settling == nil {
		return Settled{}, errors.New("settling an authority about which nothing was decided")
	}
	w := &writer{settling: *d.settling, d: d, plan: plan, out: Settled{
		Authority:      d.Authority,
		Certificate:    d.Certificate,
		CertGeneration: d.CertGeneration,
		KeyGeneration:  d.KeyGeneration,
		Transitions:    slices.Clone(d.Transitions),
	}}
	switch w.in.Spec.Source {
	case UserProvided:
		return w.out, nil
	case Outside:
		if err := w.settleOutside(); err != nil {
			return Settled{}, err
		}
		return w.out, nil
	default:
		return w.settleGenerated()
	}
}

// settleGenerated is what both Secrets of a CA that Keyturn makes shall hold.
func (w *writer) settleGenerated() (Settled, error) {
	w.pending = w.d.Pending
	w.promote()
	w.dropRetired()
	w.dropCrosses()
	w.settleKeySecret()
	if err := w.settleCertSecret(); err != nil {
		return Settled{}, err
	}
	return w.out, nil
}

// writer turns a decision and a plan into Secrets.
type writer struct {
	settling

	d    Decision
	plan Plan
	// pending is nil after a promotion.
	pending *Replacement
	// crosses of the present key and of retired ones.
	crosses []*x509.Certificate
	out     Settled
}

// promote makes the pending authority the present one.
func (w *writer) promote() {
	if w.mayPromote() {
		outgoing, incoming := w.out.Authority, w.pending.Incoming
		if !outgoing.IsZero() {
			known := append(w.o.known(), w.out.Certificate)
			w.retired = append(slices.Clone(w.retired), retire(outgoing, w.keyText(outgoing.Key()), known, w.in.Now))
		}
		w.out.Authority, w.out.Certificate, w.pending = incoming, incoming.Certificate(), nil
		w.out.CertGeneration++
		// Names carry the generation of the key. After an abort they may be ahead of
		// it, and no name may be given twice.
		w.out.KeyGeneration = max(w.out.KeyGeneration+1, w.in.Names.generation(incoming.Certificate()))
		w.note(w.in.Names.KeyReplaced, incoming.Certificate(), "it leads "+CertKey+" and issues certificates from now on; the previous CA is kept under its dated name")
	}
}

func (w *writer) mayPromote() bool {
	if w.pending == nil || w.o.pending == nil || len(w.plan.Application) == 0 || w.plan.Signer == nil {
		return false
	}
	incoming := w.pending.Incoming.Certificate()
	return sameCertificate(w.o.pending.Incoming.Certificate(), incoming) &&
		sameCertificate(w.plan.Application[0], incoming) && sameCertificate(w.plan.Signer, incoming)
}

// dropRetired forgets retired keys. Those of former CAs stay until their certificates expire: the next
// replacement needs them for peers that still rely on them. A distrusted one goes once its anchors and
// cross certificates are unused, and one that was never in use once no peer can have it.
func (w *writer) dropRetired() {
	in := func(certs []*x509.Certificate, r retiredKey) bool { return len(ofKey(certs, r.key.ID())) > 0 }
	w.retired = slices.DeleteFunc(slices.Clone(w.retired), func(r retiredKey) bool {
		switch {
		case w.d.Distrust:
			return !in(w.plan.Stored, r) && !in(w.plan.CrossSigners, r)
		case len(r.filed) > 0 || r.key.IsZero():
			return false
		default:
			return !in(w.plan.Stored, r) && !in(w.plan.Application, r)
		}
	})
}

// dropCrosses forgets cross certificates by, and for, CAs that are forgotten themselves. No peer needs
// them, and they would be presented until they expire.
func (w *writer) dropCrosses() {
	subjects := make([]pki.PrivateKey, 0, 1+len(w.retired))
	subjects = append(subjects, w.out.Authority.Key())
	for _, retired := range w.retired {
		subjects = append(subjects, retired.key)
	}
	for _, cross := range w.d.Crosses {
		isSubject := slices.ContainsFunc(subjects, func(k pki.PrivateKey) bool { return k.Matches(cross) })
		if isSubject && !w.forgetsIssuer(cross, subjects) {
			w.crosses = append(w.crosses, cross)
		}
	}
}

// forgetsIssuer reports whether the issuer of a cross certificate is forgotten in this decision. An issuer
// that was unknown before, because the CA was handed over without it, stays useful to peers that trust it.
// That does not hold once every other CA is distrusted.
func (w *writer) forgetsIssuer(cross *x509.Certificate, keys []pki.PrivateKey) bool {
	forgotten := slices.ContainsFunc(w.o.retired, func(r retiredKey) bool {
		return !slices.ContainsFunc(keys, r.key.Equal) && r.key.Signed(cross)
	})
	if forgotten || !w.d.Distrust {
		return forgotten
	}
	signers := slices.Concat(w.plan.Stored, w.plan.Application)
	for _, retired := range w.retired {
		signers = append(signers, retired.filed...)
	}
	return !slices.ContainsFunc(signers, func(s *x509.Certificate) bool { return pki.IssuedBy(cross, s) })
}

func (w *writer) note(kind TransitionKind, cert *x509.Certificate, why string) {
	w.out.Transitions = append(w.out.Transitions, Transition{Kind: kind, Certificate: pki.FingerprintOf(cert), Why: why})
}

func (w *writer) settleKeySecret() {
	stored := w.in.KeySecret.Data
	data := map[string][]byte{}
	if !w.out.Authority.IsZero() {
		data[KeyKey] = w.keyText(w.out.Authority.Key())
	}
	if len(w.crosses) > 0 {
		data[CrossKey] = keepText(stored[CrossKey], w.crosses...)
	}
	if w.pending != nil {
		data[PendingKeyKey] = w.keyText(w.pending.Incoming.Key())
		data[PendingCertKey] = keepText(stored[PendingCertKey], w.pending.Incoming.Certificate())
		if len(w.pending.Cross) > 0 {
			data[PendingCrossKey] = keepText(stored[PendingCrossKey], w.pending.Cross...)
		}
	}
	for _, retired := range w.retired {
		data[retired.name] = retired.text
		if len(retired.filed) > 0 {
			data[retired.certName()] = keepText(stored[retired.certName()], retired.filed...)
		}
	}
	w.out.Key = Desired{
		Ours:        true,
		Data:        data,
		Annotations: map[string]string{w.in.Names.KeyGeneration: w.out.KeyGeneration.String()},
	}
	w.out.Key.settleRequests(w.in.Names, w.in.KeySecret,
		requestState{annotation: AbortReplaceAnnotation},
		requestState{annotation: w.in.Names.ForceReplace, open: w.waits(ReplaceAct)},
		requestState{annotation: DistrustAnnotation, open: !w.plan.Done || w.pending != nil || w.waits(ReplaceAct)},
	)
}

// keyText is a key as it is stored, whatever the entry, so that moving a key
// changes nothing but its name.
func (w *writer) keyText(key pki.PrivateKey) []byte {
	stored := w.in.KeySecret.Data
	switch {
	case w.o.key.Equal(key):
		return stored[KeyKey]
	case w.o.pending != nil && w.o.pending.Incoming.Key().Equal(key):
		return stored[PendingKeyKey]
	}
	for _, retired := range w.o.retired {
		if retired.key.Equal(key) {
			return retired.text
		}
	}
	return key.PEM()
}

func (w *writer) waits(act Act) bool {
	return slices.ContainsFunc(w.d.Waiting, func(waiting Waiting) bool { return waiting.Act == act && waiting.Cause == ByAnnotation })
}
