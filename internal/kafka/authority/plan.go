package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// plan grows the decision about a generated authority step by step.
type plan struct {
	in Input
	o  observed
	d  Decision
	// outgoing is a certificate that is replaced in this decision.
	outgoing *x509.Certificate
	// pending is kept in the key Secret until the certificate Secret has it.
	pending *x509.Certificate
	// beginning is true when nothing of the past is kept.
	beginning bool
}

func newPlan(in Input, o observed) *plan {
	return &plan{in: in, o: o, d: Decision{
		CertGeneration: o.certGen,
		KeyGeneration:  o.keyGen,
		Warnings:       slices.Clone(o.warnings),
	}}
}

// settleAuthority finds the one branch that applies.
func (p *plan) settleAuthority() error {
	switch {
	case p.o.key.IsZero() && p.isLost():
		return p.replaceLost()
	case p.o.key.IsZero():
		return p.create()
	case p.o.replacementStarted() && (p.o.cert == nil || !p.o.key.Matches(p.o.cert)):
		return p.finishReplacement()
	case p.o.cert == nil:
		return p.recreate()
	default:
		return p.keepOrRenew()
	}
}

// isLost tells a lost key from a beginning: something still depends on it.
func (p *plan) isLost() bool {
	return len(p.in.Evidence.Dependants) > 0 || len(p.o.trusted) > 0
}

func (p *plan) caSpec() pki.CASpec {
	return pki.CASpec{
		Subject:  p.in.Kind.subject(p.d.KeyGeneration),
		Key:      p.in.Spec.CAKey(),
		Validity: p.in.Spec.Validity(),
		Now:      p.in.Now,
	}
}

func (p *plan) create() error {
	p.beginning = true
	ca, err := pki.NewCA(p.caSpec())
	if err != nil {
		return fmt.Errorf("creating the %s of %s: %w", p.in.Kind, p.in.Cluster, err)
	}
	p.take(ca, Created, "there was none")
	return nil
}

// replaceLost makes a new key under the next generation. Nobody can sign with
// the old key any more, so there is no cross certificate; what trusted the old
// certificate goes on finding it under its dated name.
func (p *plan) replaceLost() error {
	p.d.KeyGeneration = max(p.d.KeyGeneration, p.highestNamed()) + 1
	p.d.CertGeneration++
	ca, err := pki.NewCA(p.caSpec())
	if err != nil {
		return fmt.Errorf("replacing the lost %s of %s: %w", p.in.Kind, p.in.Cluster, err)
	}
	p.outgoing = p.o.cert
	p.pending = ca.Certificate()
	p.take(ca, KeyReplaced, p.in.keyObject()+" was lost while the cluster depends on it; the old certificate is kept under its dated name")
	return nil
}

// highestNamed is the highest key generation in the names of what is known. The
// annotation that counts was lost with the key; the names only keep the number
// from going backwards.
func (p *plan) highestNamed() Generation {
	known := slices.Clone(p.o.trusted)
	if p.o.cert != nil {
		known = append(known, p.o.cert)
	}
	var highest Generation
	for _, cert := range known {
		text, found := strings.CutPrefix(cert.Subject.CommonName, string(p.in.Kind)+" v")
		if n, err := strconv.Atoi(text); found && err == nil {
			highest = max(highest, Generation(n))
		}
	}
	return highest
}

// finishReplacement goes on after a crash between the writes of a replacement.
func (p *plan) finishReplacement() error {
	ca, err := pki.NewAuthority(p.o.pending, p.o.key)
	if err != nil {
		return invalid(Problem{Object: p.in.keyObject(), Wrong: PendingCertKey + ": " + err.Error(), Remedy: "remove " + PendingCertKey + " from the Secret"})
	}
	p.d.CertGeneration++
	p.outgoing = p.o.cert
	p.pending = p.o.pending
	p.take(ca, KeyReplaced, "a replacement that had been interrupted was completed")
	return nil
}

// recreate makes a certificate for a key that has lost its own. An anchor of the
// same key that pods mount lends its subject, whoever made it.
func (p *plan) recreate() error {
	p.d.CertGeneration++
	ca, err := p.signAnew()
	if err != nil {
		return fmt.Errorf("making the certificate of the %s of %s anew: %w", p.in.Kind, p.in.Cluster, err)
	}
	p.take(ca, Recreated, p.in.certObject()+" had no certificate; it was made anew from the same key")
	return nil
}

func (p *plan) signAnew() (pki.Authority, error) {
	for _, anchor := range p.o.trusted {
		if p.o.key.Matches(anchor) {
			return pki.RenewCA(anchor, p.o.key, p.in.Spec.Validity(), p.in.Now)
		}
	}
	return pki.SelfSign(p.o.key, p.caSpec())
}

func (p *plan) take(ca pki.Authority, kind TransitionKind, why string) {
	p.d.Authority = ca
	p.d.Certificate = ca.Certificate()
	p.d.RenewalAt = ca.Certificate().NotAfter.Add(-p.in.Spec.Renewal())
	p.d.Transitions = append(p.d.Transitions, Transition{Kind: kind, Certificate: pki.FingerprintOf(ca.Certificate()), Why: why})
}

// keep goes on with what is stored.
func (p *plan) keep() error {
	ca, err := pki.NewAuthority(p.o.cert, p.o.key)
	if err != nil {
		return invalid(Problem{Object: p.in.certObject(), Wrong: err.Error(), Remedy: "put back the CA certificate"})
	}
	p.d.Authority = ca
	p.d.Certificate = p.o.cert
	p.d.RenewalAt = p.o.cert.NotAfter.Add(-p.in.Spec.Renewal())
	return nil
}

// keepRetained decides which entries besides the certificate stay: dated ones
// until they expire or nothing needs them. Renewal keeps them too, since a
// replacement may be under way.
func (p *plan) keepRetained() {
	if p.beginning {
		return
	}
	kept := retainedIn(p.in.CertSecret.Data)
	for _, cert := range p.lostAnchors() {
		kept[DatedCertKey(cert)] = cert
	}
	for _, key := range sortedKeys(kept) {
		if why := p.whyRemoved(kept[key]); why != "" {
			p.d.Transitions = append(p.d.Transitions, Transition{Kind: OldRemoved, Certificate: pki.FingerprintOf(kept[key]), Why: key + " " + why})
			continue
		}
		p.d.Retained = append(p.d.Retained, kept[key])
	}
	slices.SortFunc(p.d.Retained, func(a, b *x509.Certificate) int {
		return pki.FingerprintOf(a).Compare(pki.FingerprintOf(b))
	})
}

// lostAnchors are what a replacement retires: the outgoing certificate, or, when
// that is lost as well, what pods mount under another key.
func (p *plan) lostAnchors() []*x509.Certificate {
	if p.outgoing != nil {
		return []*x509.Certificate{p.outgoing}
	}
	if p.pending == nil {
		return nil
	}
	var lost []*x509.Certificate
	for _, anchor := range p.o.trusted {
		if !p.d.Authority.Key().Matches(anchor) {
			lost = append(lost, anchor)
		}
	}
	return lost
}

func (p *plan) whyRemoved(cert *x509.Certificate) string {
	switch fp := pki.FingerprintOf(cert); {
	case p.in.Now.After(cert.NotAfter):
		return "has expired"
	case fp != pki.FingerprintOf(p.d.Certificate) && slices.Contains(p.in.Retire, fp):
		return "is needed by nothing any more"
	case fp == pki.FingerprintOf(p.d.Certificate):
		return "is the present certificate"
	default:
		return ""
	}
}

func (p *plan) settleCertSecret() error {
	data := map[string][]byte{CertKey: p.certBytes()}
	entries := []pki.TrustEntry{{Alias: CertKey, Certificate: p.d.Certificate}}
	for _, key := range p.otherCertKeys() {
		value, cert := p.entry(key)
		if cert == nil {
			continue
		}
		data[key] = value
		entries = append(entries, pki.TrustEntry{Alias: key, Certificate: cert})
	}
	if !p.beginning {
		keepForeignStores(data, p.in.CertSecret.Data)
	}
	if p.in.Stores == WithStores {
		store, password, err := p.store(entries)
		if err != nil {
			return err
		}
		data[StoreKey], data[PasswordKey] = store, password
	}
	p.d.Cert = Desired{
		Ours:        true,
		Data:        data,
		Annotations: map[string]string{CertGenerationAnnotation: p.d.CertGeneration.String()},
	}
	p.settleRequest(&p.d.Cert, p.in.CertSecret, ForceRenewAnnotation, RenewAct)
	return nil
}

// store keeps or makes the PKCS#12 store. A person may have put a password there
// that no store can have.
func (p *plan) store(entries []pki.TrustEntry) (store, password []byte, err error) {
	stored := p.in.CertSecret.Data
	if p.beginning {
		stored = nil
	}
	if store, password, err = keepStore(stored, entries); err != nil {
		return nil, nil, invalid(Problem{
			Object: p.in.certObject(), Wrong: StoreKey + ": " + err.Error(),
			Remedy: "remove " + PasswordKey + " from the Secret: Keyturn then makes a new one",
		})
	}
	return store, password, nil
}

// certBytes reuses the stored text while its certificate stays, so that an
// unchanged Secret stays unchanged to the byte.
func (p *plan) certBytes() []byte {
	if p.d.Certificate == p.o.cert {
		return p.in.CertSecret.Data[CertKey]
	}
	return pki.EncodeBundle(p.d.Certificate)
}

// otherCertKeys lists the entries besides the certificate, sorted: retained
// certificates, and what a person added.
func (p *plan) otherCertKeys() []string {
	keys := map[string]bool{}
	for _, cert := range p.d.Retained {
		keys[DatedCertKey(cert)] = true
	}
	for key := range p.in.CertSecret.Data {
		added := key != CertKey && strings.HasSuffix(key, certSuffix) && !IsDatedCertKey(key)
		if added && !p.beginning {
			keys[key] = true
		}
	}
	return sortedKeys(keys)
}

// entry returns an entry that stays: a retained certificate, or one that a
// person added and that is readable and unexpired.
func (p *plan) entry(key string) ([]byte, *x509.Certificate) {
	stored := p.in.CertSecret.Data[key]
	cert, err := pki.FirstCertificate(stored)
	if err == nil {
		if p.in.Now.After(cert.NotAfter) {
			return nil, nil
		}
		return stored, cert
	}
	for _, retained := range p.d.Retained {
		if DatedCertKey(retained) == key {
			return pki.EncodeBundle(retained), retained
		}
	}
	return nil, nil
}

func (p *plan) settleKeySecret() {
	data := map[string][]byte{KeyKey: p.keyBytes()}
	for key, value := range p.in.KeySecret.Data {
		if p.keepsKeyEntry(key) {
			data[key] = value
		}
	}
	if p.pending != nil {
		data[PendingCertKey] = pki.EncodeBundle(p.pending)
	}
	p.d.Key = Desired{
		Ours:        true,
		Data:        data,
		Annotations: map[string]string{KeyGenerationAnnotation: p.d.KeyGeneration.String()},
	}
	p.settleRequest(&p.d.Key, p.in.KeySecret, ForceReplaceAnnotation, ReplaceAct)
}

func (p *plan) keyBytes() []byte {
	if !p.o.key.IsZero() {
		return p.in.KeySecret.Data[KeyKey]
	}
	return p.d.Authority.Key().PEM()
}

// keepsKeyEntry: the key of a coming authority stays until it has come, that of a
// retired one until its certificate ends.
func (p *plan) keepsKeyEntry(key string) bool {
	if key == PendingKeyKey || key == PendingCrossKey {
		return true
	}
	if key == PendingCertKey {
		return len(p.in.KeySecret.Data[PendingKeyKey]) > 0
	}
	end, dated := datedEnd(key, keySuffix)
	return dated && p.in.Now.Before(end)
}

// settleRequest keeps the annotation of a request that waits and removes any other.
func (p *plan) settleRequest(desired *Desired, stored Stored, annotation string, act Act) {
	value, present := stored.Annotations[annotation]
	if !stored.Exists || !present {
		return
	}
	waits := slices.ContainsFunc(p.d.Waiting, func(w Waiting) bool { return w.Act == act && w.Cause == ByAnnotation })
	if waits {
		desired.Annotations[annotation] = value
		return
	}
	desired.RemoveAnnotations = append(desired.RemoveAnnotations, annotation)
}

// lastCall is how close to its end a certificate may come while it waits for a
// maintenance window that is not in sight.
func lastCall(renewal time.Duration) time.Duration { return min(Day, renewal/2) }
