package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// observed is what the Secrets of a generated authority mean.
type observed struct {
	// key is ca.key; zero when it is not there.
	key pki.PrivateKey
	// pending is the replacement that is under way, or nil.
	pending *Replacement
	retired []retiredKey
	// crosses are those of the present key and of retired ones.
	crosses []*x509.Certificate
	// bundle is ca.crt in its order.
	bundle []*x509.Certificate
	dated  map[string]*x509.Certificate
	// trusted are the anchors that pods mount, or mounted before their Secret was
	// lost.
	trusted []Anchor
	// recalled are the certificates of trusted after that loss.
	recalled []*x509.Certificate
	// certGen and keyGen are those of what is present.
	certGen Generation
	keyGen  Generation
	// keyGenFound is true when the key Secret says keyGen.
	keyGenFound bool
	// seenCertGen is the highest certificate generation that anything bears; none
	// when nothing does.
	seenCertGen Generation
	warnings    []Remark
}

// none is no generation at all.
const none Generation = -1

// observe reads the Secrets of a generated authority. It reports all problems
// together.
func observe(in Input) (observed, []Problem) {
	o := observed{
		retired: retiredIn(in.KeySecret.Data),
		crosses: crossesIn(in.KeySecret, CrossKey),
		dated:   datedIn(in.CertSecret.Data),
		trusted: StoredAnchors(in.TrustedCerts),
	}
	var problems []Problem
	report := func(p *Problem) {
		if p != nil {
			problems = append(problems, *p)
		}
	}
	report(o.readKey(in))
	report(o.readPending(in))
	report(o.readBundle(in))
	o.dropStrangers(in)
	o.recall(in)
	report(o.readGenerations(in))
	if len(problems) == 0 {
		report(o.checkBundle(in))
	}
	if len(problems) == 0 {
		report(o.checkKnown(in))
	}
	return o, problems
}

// dropStrangers drops mounted CA certificates that were put there by hand: no peer was told to trust them,
// and no other Secret of the CA has them. While no peer is known to have been told anything, every
// certificate stays.
func (o *observed) dropStrangers(in Input) {
	if len(in.Evidence.Named) == 0 {
		return
	}
	mounted := o.trusted
	o.trusted = nil
	known := append(slices.Clone(o.bundle), o.accounted()...)
	for _, anchor := range mounted {
		if in.Evidence.names(anchor.Certificate) || o.holdsKeyOf(anchor.Certificate) || contains(known, anchor.Certificate) {
			o.trusted = append(o.trusted, anchor)
		}
	}
}

// readKey reads ca.key. It may be missing only while another key waits to take
// its place, because it was lost.
func (o *observed) readKey(in Input) *Problem {
	if !in.KeySecret.Exists {
		return nil
	}
	data := in.KeySecret.Data[KeyKey]
	if len(data) == 0 {
		if len(in.KeySecret.Data[PendingKeyKey]) > 0 {
			return nil
		}
		return &Problem{
			Object: in.keyObject(), Wrong: "the key " + KeyKey + " is missing",
			Remedy: "restore the private key of the CA, or delete the whole Secret if the key is lost: Keyturn then replaces the key",
		}
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return &Problem{
			Object: in.keyObject(), Wrong: KeyKey + ": " + err.Error(),
			Remedy: "restore the private key of the CA as unencrypted PKCS#8",
		}
	}
	o.key = key
	return nil
}

func (o *observed) readPending(in Input) *Problem {
	if len(in.KeySecret.Data[PendingKeyKey]) == 0 {
		return nil
	}
	pending, err := parsePending(in.KeySecret)
	if err == nil {
		o.pending = &pending
		return nil
	}
	p := &Problem{
		Object: in.keyObject(), Wrong: "a pending replacement cannot be read: " + err.Error(),
		Remedy: "restore the entry, or annotate the Secret with " + AbortReplaceAnnotation + "=true to abort the replacement",
	}
	if len(in.KeySecret.Data[KeyKey]) == 0 {
		p.Remedy = "restore the entry, or delete the whole Secret: Keyturn then starts another replacement"
		return p
	}
	if in.asks(AbortReplaceAnnotation) {
		return nil
	}
	return p
}

func (o *observed) readBundle(in Input) *Problem {
	data := in.CertSecret.Data[CertKey]
	if !in.CertSecret.Exists || len(data) == 0 {
		return nil
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return &Problem{
			Object: in.certObject(), Wrong: CertKey + ": " + err.Error(),
			Remedy: "restore the CA certificate, or remove " + CertKey + " from the Secret: Keyturn then restores it",
		}
	}
	for _, cert := range certs {
		if err := pki.CheckCA(cert); err != nil {
			return &Problem{
				Object: in.certObject(), Wrong: CertKey + ": " + err.Error(),
				Remedy: "restore the CA certificate",
			}
		}
	}
	o.bundle = certs
	return nil
}

func (o *observed) readGenerations(in Input) *Problem {
	certGen, certFound, err := in.CertSecret.generation(in.Names.CertGeneration)
	if err != nil {
		return generationProblem(in.certObject(), err)
	}
	keyGen, keyFound, err := in.KeySecret.generation(in.Names.KeyGeneration)
	if err != nil {
		return generationProblem(in.keyObject(), err)
	}
	// What dependants carry and names say counts only where the Secret says nothing any
	// more: during a replacement they are one generation ahead of it.
	seen := in.Evidence.generations()
	if !keyFound {
		keyGen = max(seen.key, o.keyGenOfNames(in.Names), 0)
	}
	o.keyGen, o.keyGenFound, o.certGen, o.seenCertGen = keyGen, keyFound, certGen, certGen
	if !certFound {
		// Each new key had a new certificate.
		o.certGen, o.seenCertGen = max(seen.cert, keyGen), seen.cert
	}
	if len(o.bundle) > 0 && !certFound {
		o.warnings = append(o.warnings, missingGeneration(in.Names.CertSecret, in.Names.CertGeneration, o.certGen))
	}
	if !o.key.IsZero() && !keyFound {
		o.warnings = append(o.warnings, missingGeneration(in.Names.KeySecret, in.Names.KeyGeneration, o.keyGen))
	}
	return nil
}

// keyGenOfNames is the generation of ca.key by the names of the authorities that there
// are besides the one to come: one more than the highest, where that is another's.
func (o *observed) keyGenOfNames(names *Names) Generation {
	if o.key.IsZero() {
		return none
	}
	own, others := none, none
	for _, cert := range o.known() {
		switch {
		case o.isPending(cert):
		case o.key.Matches(cert):
			own = max(own, names.generation(cert))
		default:
			others = max(others, names.generation(cert))
		}
	}
	if others > own {
		return others + 1
	}
	return own
}

// generations are a pair of them, or none.
type generations struct {
	cert, key Generation
}

func (e Evidence) generations() generations {
	if len(e.Dependants) == 0 {
		return generations{cert: none, key: none}
	}
	return generations{cert: e.CertGeneration, key: e.KeyGeneration}
}

func missingGeneration(secret, annotation string, counts Generation) Remark {
	return Remark{Secret: secret, Part: anyPart(annotation), Text: fmt.Sprintf("the annotation %s is missing and counts as %s", annotation, counts)}
}

func generationProblem(object string, err error) *Problem {
	return &Problem{Object: object, Wrong: err.Error(), Remedy: "set it to its previous value, a number that grows by one with each change"}
}

// checkBundle finds what the entries of ca.crt have to do with ca.key.
func (o *observed) checkBundle(in Input) *Problem {
	nothingKnown := len(o.trusted) == 0 && len(o.dated) == 0 && len(o.retired) == 0 && o.pending == nil
	// Several certificates of the key are what a renewal leaves: they need no telling.
	if len(o.bundle) > 1 && nothingKnown && len(ofKey(o.bundle, o.key.ID())) < len(o.bundle) {
		return &Problem{
			Object: in.certObject(), Wrong: fmt.Sprintf("%s holds %d certificates, where one is expected", CertKey, len(o.bundle)),
			Remedy: "keep only the certificate that belongs to " + KeyKey + ", or set " + in.Names.Source + " to false to use your own chain",
		}
	}
	if o.key.IsZero() || len(o.bundle) == 0 || o.entryOfKey() != nil || o.lacksPromoted() {
		return nil
	}
	return &Problem{
		Object: in.certObject(), Wrong: CertKey + " does not belong to " + KeyKey + " of " + in.keyObject(),
		Remedy: "restore a certificate and key that belong together",
	}
}

// entryOfKey is the entry of ca.crt that ca.key belongs to, or nil: the one that
// was made last, when a renewed certificate stands beside the one before it.
func (o *observed) entryOfKey() *x509.Certificate {
	var entry *x509.Certificate
	for _, cert := range o.bundle {
		if o.key.Matches(cert) && (entry == nil || madeLater(cert, entry)) {
			entry = cert
		}
	}
	return entry
}

func madeLater(a, b *x509.Certificate) bool {
	if !a.NotBefore.Equal(b.NotBefore) {
		return a.NotBefore.After(b.NotBefore)
	}
	return a.NotAfter.After(b.NotAfter)
}

// lacksPromoted distinguishes a crash between the writes of a promotion from a pair that was mixed up,
// where ca.crt never held the new certificate. After the crash pods mount the new certificate, and ca.crt
// belongs to a retired key.
func (o *observed) lacksPromoted() bool {
	isFirst := func(r retiredKey) bool { return r.key.Matches(o.bundle[0]) }
	return o.trustedOfKey(o.key) != nil && slices.ContainsFunc(o.retired, isFirst)
}

// trustedOfKey is the anchor with a key that ends last, or nil.
func (o *observed) trustedOfKey(key pki.PrivateKey) *x509.Certificate {
	var last *x509.Certificate
	for _, anchor := range o.trusted {
		if key.Matches(anchor.Certificate) && (last == nil || anchor.Certificate.NotAfter.After(last.NotAfter)) {
			last = anchor.Certificate
		}
	}
	return last
}

// checkKnown refuses a pair that fits together but is not the one that runs:
// taking it over would cut off every peer at once.
func (o *observed) checkKnown(in Input) *Problem {
	if o.key.IsZero() || len(o.trusted) == 0 || len(in.Evidence.Dependants) == 0 || o.sharesKeyWithTrusted() {
		return nil
	}
	if o.hasIssued(in) {
		return &Problem{
			Object: "Secret " + in.Names.TrustedCertsSecret, Wrong: "it names no CA with the key by which certificates in use are signed: it is of an earlier day",
			Remedy: "keep a copy, and delete it: it is written again from what is in use",
		}
	}
	return &Problem{
		Object: in.keyObject(), Wrong: "it holds the key of a foreign CA: no CA that the cluster trusts has this key",
		Remedy: "restore the CA of the cluster; to get a new key, annotate Secret " + in.Names.KeySecret + " with " + in.Names.ForceReplace + "=true" +
			in.ifOwnable("; to use your own CA, set %s to false"),
	}
}

// hasIssued reports whether the key has signed a certificate that is in use.
func (o *observed) hasIssued(in Input) bool {
	return slices.ContainsFunc(in.Evidence.Issued, func(leaf *x509.Certificate) bool {
		return in.Now.Before(leaf.NotAfter) && o.key.Signed(leaf)
	})
}

// sharesKeyWithTrusted reports whether anything in the two Secrets has the key of an anchor that pods
// mount. During a replacement that may be only the outgoing or the incoming one, if what pods mount was
// edited.
func (o *observed) sharesKeyWithTrusted() bool {
	ours := map[pki.KeyID]bool{o.key.ID(): true}
	if o.pending != nil {
		ours[o.pending.Incoming.Key().ID()] = true
	}
	for _, retired := range o.retired {
		ours[retired.key.ID()] = true
	}
	for _, cert := range o.dated {
		ours[pki.KeyIDOf(cert)] = true
	}
	return slices.ContainsFunc(o.trusted, func(a Anchor) bool { return ours[pki.KeyIDOf(a.Certificate)] })
}

// outgoing is the present certificate of an authority whose key is lost: the first
// entry of ca.crt, or the anchor that is used most. It is nil when nothing is left.
func (o *observed) outgoing(now time.Time) *x509.Certificate {
	for _, cert := range o.bundle {
		if !o.isPending(cert) {
			return cert
		}
	}
	var best *Anchor
	for _, anchor := range o.trusted {
		if !o.isPending(anchor.Certificate) && (best == nil || usedMore(anchor, *best, now)) {
			best = &anchor
		}
	}
	if best == nil {
		return nil
	}
	return best.Certificate
}

func (o *observed) isPending(cert *x509.Certificate) bool {
	return o.pending != nil && o.pending.Incoming.Key().Matches(cert)
}

func usedMore(a, b Anchor, now time.Time) bool {
	if aLives, bLives := now.Before(a.Certificate.NotAfter), now.Before(b.Certificate.NotAfter); aLives != bLives {
		return aLives
	}
	if a.State != b.State {
		return use(a.State) > use(b.State)
	}
	return a.Certificate.NotAfter.After(b.Certificate.NotAfter)
}

// use orders states by how much of what peers present depends on an anchor. It is
// negative for what is not the state of a stored anchor.
func use(s trust.State) int {
	return slices.Index([]trust.State{trust.Untrusted, trust.PhaseOut, trust.TrustedUnused, trust.InUseAny, trust.InUseAll}, s)
}

// known are all certificates of the authority, present, past and future; one may
// be among them more than once.
func (o *observed) known() []*x509.Certificate {
	return append(slices.Clone(o.bundle), o.accounted()...)
}

// isStranger reports whether nothing but ca.crt knows the certificate, and ca.key
// does not belong to it.
func (o *observed) isStranger(cert *x509.Certificate) bool {
	return !contains(o.accounted(), cert) && (o.key.IsZero() || !o.key.Matches(cert))
}

// accounted are the CA certificates that something besides ca.crt knows.
func (o *observed) accounted() []*x509.Certificate {
	var known []*x509.Certificate
	for _, name := range sortedKeys(o.dated) {
		known = append(known, o.dated[name])
	}
	for _, anchor := range o.trusted {
		known = append(known, anchor.Certificate)
	}
	for _, retired := range o.retired {
		known = append(known, retired.filed...)
	}
	if o.pending != nil {
		known = append(known, o.pending.Incoming.Certificate())
	}
	return known
}
