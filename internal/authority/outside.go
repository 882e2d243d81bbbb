package authority

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// decideOutside decides about the CAs of an issuer that holds its keys. They are copied into the certificate Secret, and
// what they replace stays there under dated names until nothing needs it. The key Secret is not written.
func decideOutside(in Input) (Decision, error) {
	bundle, remarks, problem := in.Bundle.read(in)
	if problem != nil {
		return Decision{}, invalid(*problem)
	}
	o := outside{in: in, bundle: bundle, mounted: mountedAt(bundle, in.Now), warnings: remarks}
	if problem := o.readStored(); problem != nil {
		return Decision{}, invalid(*problem)
	}
	return o.decision(), nil
}

// outside is what is known of the CAs of an issuer.
type outside struct {
	in Input
	// bundle are the CAs that the user names, and mounted those of them that nodes trust.
	bundle, mounted []*x509.Certificate
	// stored are the CAs of ca.crt, and outgoing those of it and of dated entries that are in the bundle no more.
	stored, outgoing []*x509.Certificate
	// certGen and keyGen are as stored.
	certGen, keyGen Generation
	warnings        []Remark
}

func (o *outside) readStored() *Problem {
	stored := o.in.CertSecret
	if len(stored.Data[CertKey]) > 0 {
		certs, err := pki.ParseBundle(stored.Data[CertKey])
		if err != nil {
			return &Problem{
				Object: o.in.certObject(), Wrong: CertKey + ": " + err.Error(),
				Remedy: "remove " + CertKey + " from the Secret: Keyturn then copies it again",
			}
		}
		o.stored = certs
	}
	var problem *Problem
	read := func(annotation string) Generation {
		generation, _, err := stored.generation(annotation)
		if err != nil {
			problem = generationProblem(o.in.certObject(), err)
		}
		return generation
	}
	seen := o.in.Evidence.generations()
	o.certGen, o.keyGen = max(read(o.in.Names.CertGeneration), seen.cert), max(read(o.in.Names.KeyGeneration), seen.key)
	o.outgoing = slices.DeleteFunc(o.trustedBefore(), func(cert *x509.Certificate) bool { return contains(o.bundle, cert) })
	return problem
}

// trustedBefore are the CAs that ca.crt and dated entries hold for nodes. Those that ca.crt holds for applications alone
// were never mounted. Where ca.crt is lost, they are those that pods mount or agents show.
func (o *outside) trustedBefore() []*x509.Certificate {
	before := mountedAt(o.stored, o.in.Now)
	dated := datedIn(o.in.CertSecret.Data)
	for _, name := range sortedKeys(dated) {
		before = append(before, dated[name])
	}
	if len(o.stored) == 0 {
		for _, anchor := range heldAnchors(o.in) {
			before = append(before, anchor.Certificate)
		}
	}
	return unexpired(before, o.in.Now)
}

// target is the CA by which leaves shall be verified in the end: that of the leaf that was issued last, and of several the
// one next to it. Before there is one it is the CA that leads ca.crt, and at the beginning the first of the bundle.
func (o *outside) target() *x509.Certificate {
	for length := range o.in.Bundle.Offered {
		for _, ca := range o.mounted {
			if pki.Verify(o.in.Bundle.Offered[:length+1], []*x509.Certificate{ca}, o.in.Now) == nil {
				return ca
			}
		}
	}
	for _, cert := range o.stored {
		if contains(o.mounted, cert) {
			return cert
		}
	}
	return o.mounted[0]
}

// distrusts reports whether a person distrusts every CA of users but the one of the bundle. The certificate Secret says so,
// because there is no other. Nodes stop to trust an old CA of their own when nothing presents it.
func (o *outside) distrusts() bool {
	if o.in.Names.Holders != Users || !strings.EqualFold(o.in.CertSecret.Annotations[DistrustAnnotation], DistrustNow) {
		return false
	}
	if len(o.mounted) == 1 {
		return true
	}
	o.warnings = append(o.warnings, Remark{
		Secret: o.in.Names.CertSecret, Part: anyPart(DistrustAnnotation),
		Text: "annotation " + DistrustAnnotation + " has no effect yet, because every CA of caCert stays trusted: remove all but one from entry " +
			o.in.Bundle.Entry + " of Secret " + o.in.Bundle.Secret,
	})
	return false
}

func (o *outside) decision() Decision {
	target, distrusts := o.target(), o.distrusts()
	d := Decision{
		Certificate: target, Chain: []*x509.Certificate{target},
		NoCross:        "the key of the CA is held by its issuer, so the outgoing CA cannot cross-sign it",
		CertGeneration: o.certGen, KeyGeneration: o.keyGen,
		Warnings: o.warnings, RenewalAt: target.NotAfter.Add(-o.in.Spec.Renewal()),
		Retired: o.outgoing, Distrust: distrusts,
		settling: &settling{in: o.in},
	}
	o.count(&d)
	for _, ca := range o.mounted {
		if !sameCertificate(ca, target) {
			d.Kept = append(d.Kept, ca)
		}
	}
	for _, cert := range o.stored {
		if contains(o.mounted, cert) || contains(o.outgoing, cert) {
			d.Published = append(d.Published, cert)
		}
	}
	for _, cert := range o.outgoing {
		if (len(d.Published) > 0 || len(o.stored) == 0) && !contains(d.Published, cert) {
			d.Published = append(d.Published, cert)
		}
	}
	if o.in.Now.After(d.RenewalAt) {
		d.Warnings = append(d.Warnings, Remark{
			Secret: o.in.Bundle.Secret, Part: entryPart(o.in.Bundle.Entry) + ".notAfter",
			Text: "CA " + target.Subject.String() + " expires at " + target.NotAfter.UTC().Format("2006-01-02T15:04:05Z") +
				" and is yours to renew: put the next one into entry " + o.in.Bundle.Entry + " before then",
		})
	}
	sortRemarks(d.Warnings)
	d.settling.bundle = o.bundle
	return d
}

// count raises the generations when the bundle has changed: that of the key when a key has left it that nodes trusted. One
// that is on its way out under a dated name was counted before.
func (o *outside) count(d *Decision) {
	copied := !slices.ContainsFunc(o.bundle, func(c *x509.Certificate) bool { return !contains(o.stored, c) })
	if copied && o.in.CertSecret.Annotations[o.in.Names.CertHash] == hashOf(o.bundle) {
		return
	}
	note := func(kind TransitionKind, why string) {
		d.Transitions = append(d.Transitions, Transition{Kind: kind, Certificate: pki.FingerprintOf(d.Certificate), Why: why})
	}
	from := "copied from entry " + o.in.Bundle.Entry + " of Secret " + o.in.Bundle.Secret
	before := o.trustedBefore()
	dated := slices.Collect(maps.Values(datedIn(o.in.CertSecret.Data)))
	left := func(c *x509.Certificate) bool {
		return !contains(dated, c) && len(ofKey(o.mounted, pki.KeyIDOf(c))) == 0
	}
	switch {
	case len(before) == 0:
		note(Copied, from)
	case slices.ContainsFunc(before, left):
		d.CertGeneration++
		d.KeyGeneration++
		note(o.in.Names.KeyReplaced, from+"; nodes trust the previous CA until nothing presents its certificates")
	default:
		d.CertGeneration++
		note(Renewed, from+"; no key has left it")
	}
}

// settleOutside is the certificate Secret: the CAs of the bundle and those that are still needed, led by what the plan
// puts first. All of the bundle is for applications, also what nodes do not trust.
func (w *writer) settleOutside() error {
	stored := w.in.CertSecret.Data
	certs := slices.Clone(w.plan.Application)
	if len(certs) == 0 {
		certs = append(certs, w.d.Certificate)
	}
	outgoing := slices.DeleteFunc(slices.Clone(certs), func(c *x509.Certificate) bool { return contains(w.bundle, c) })
	for _, cert := range w.bundle {
		if !contains(certs, cert) {
			certs = append(certs, cert)
		}
	}
	data := map[string][]byte{CertKey: keepText(stored[CertKey], certs...)}
	for _, cert := range outgoing {
		data[DatedCertKey(cert)] = keepFirst(stored[DatedCertKey(cert)], cert)
	}
	keepForeignStores(data, stored)
	if w.in.Stores == WithStores {
		store, password, err := keepStore(stored, trustEntries(certs))
		if err != nil {
			return w.storeProblem(err)
		}
		data[StoreKey], data[PasswordKey] = store, password
	}
	for name, cert := range datedIn(stored) {
		if data[name] == nil {
			w.note(OldRemoved, cert, name+" is no longer needed")
		}
	}
	w.out.Cert = Desired{Ours: true, Data: data, Annotations: map[string]string{
		w.in.Names.CertGeneration: w.out.CertGeneration.String(),
		w.in.Names.KeyGeneration:  w.out.KeyGeneration.String(),
		w.in.Names.CertHash:       hashOf(w.bundle),
	}}
	if w.in.Names.Holders == Users {
		isOpen := !w.d.Distrust || !w.plan.Done
		w.out.Cert.settleRequests(w.in.Names, w.in.CertSecret, requestState{annotation: DistrustAnnotation, open: isOpen})
	}
	return nil
}

// AllForeign reports whether no certificate, of a CA or of a leaf, depends on one of the keys of a key Secret.
func AllForeign(keySecret Stored, certs []*x509.Certificate) bool {
	for _, entry := range sortedKeys(keySecret.Data) {
		if !strings.HasSuffix(entry, keySuffix) {
			continue
		}
		key, err := pki.ParsePrivateKey(keySecret.Data[entry])
		if err != nil || slices.ContainsFunc(certs, func(c *x509.Certificate) bool { return key.Matches(c) || key.Signed(c) }) {
			return false
		}
	}
	return true
}
