package authority

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// decideUserProvided checks a CA that a user maintains. Nothing of it is written.
func decideUserProvided(in Input) (Decision, error) {
	if problems := missingSecrets(in); len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	var problems []Problem
	report := func(p *Problem) {
		if p != nil {
			problems = append(problems, *p)
		}
	}
	u := userCA{in: in, entries: map[pki.Fingerprint]string{}}
	report(u.readGenerations())
	report(u.readChain())
	report(u.readKey())
	if len(problems) == 0 {
		report(u.checkFitness())
	}
	if len(problems) == 0 {
		problems = u.checkOtherEntries()
	}
	if len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	return u.decision()
}

// userCA is what the Secrets of a user's CA mean.
type userCA struct {
	in       Input
	chain    []*x509.Certificate
	key      pki.PrivateKey
	retained []*x509.Certificate
	// entries name the entries of retained and of kept.
	entries map[pki.Fingerprint]string
	// kept are the CAs of entries that are not dated.
	kept []*x509.Certificate
	// crosses cross-sign the present CA by what its key was known as before, and noCross
	// says why one is missing.
	crosses  []*x509.Certificate
	noCross  string
	certGen  Generation
	keyGen   Generation
	warnings []Remark
}

func missingSecrets(in Input) []Problem {
	var problems []Problem
	held := nodesHold(in)
	for _, s := range []struct {
		stored        Stored
		object, holds string
	}{
		{in.CertSecret, in.certObject(), CertKey},
		{in.KeySecret, in.keyObject(), KeyKey},
	} {
		if s.stored.Exists {
			continue
		}
		problems = append(problems, Problem{
			Object: s.object,
			Wrong:  in.Names.Source + " is false, but the Secret was not found" + held,
			Remedy: "create it with " + s.holds + " and the labels " + in.Names.Labels,
		})
		held = "" // once is enough
	}
	return problems
}

func (u *userCA) readGenerations() *Problem {
	certGen, found, err := u.in.CertSecret.generation(u.in.Names.CertGeneration)
	if err != nil {
		return generationProblem(u.in.certObject(), err)
	}
	if !found {
		u.warnings = append(u.warnings, missingGeneration(u.in.Names.CertSecret, u.in.Names.CertGeneration, 0))
	}
	keyGen, found, err := u.in.KeySecret.generation(u.in.Names.KeyGeneration)
	if err != nil {
		return generationProblem(u.in.keyObject(), err)
	}
	if !found {
		u.warnings = append(u.warnings, missingGeneration(u.in.Names.KeySecret, u.in.Names.KeyGeneration, 0))
	}
	u.certGen, u.keyGen = certGen, keyGen
	u.raiseGenerations()
	return nil
}

func (u *userCA) readChain() *Problem {
	remedy := "put one chain there: the CA that issues leaves first, followed by its issuers, the root last; " + u.furtherCAs()
	data := u.in.CertSecret.Data[CertKey]
	if len(data) == 0 {
		return &Problem{Object: u.in.certObject(), Wrong: "the key " + CertKey + " is missing", Remedy: remedy}
	}
	chain, err := pki.ParseChain(data)
	if err == nil {
		chain = u.fromValid(chain)
		err = pki.CheckChainOrder(chain)
	}
	if err == nil {
		chain = u.needed(chain)
		if why := pki.CheckIssuer(chain, u.in.Names.Holders.usages()...); why != nil {
			return u.unfit(why)
		}
		err = pki.CheckCAChain(chain, u.in.Now)
	}
	if err != nil {
		return &Problem{Object: u.in.certObject(), Wrong: CertKey + ": " + err.Error(), Remedy: remedy}
	}
	u.chain = chain
	u.warnOfOpenSSL()
	return nil
}

// fromValid is a chain without the invalid versions of the CA that issues that are before a later one.
func (u *userCA) fromValid(chain []*x509.Certificate) []*x509.Certificate {
	for len(chain) > 1 && pki.CheckValidAt(chain[0], u.in.Now) != nil && pki.AuthorityIDOf(chain[0]) == pki.AuthorityIDOf(chain[1]) {
		u.warnOfNeedless(chain[0])
		chain = chain[1:]
	}
	return chain
}

// warnOfOpenSSL names what nodes accept and clients with OpenSSL refuse.
func (u *userCA) warnOfOpenSSL() {
	for i, cert := range u.chain {
		for _, err := range []error{pki.CheckStrength(cert), pki.CheckSubject(u.chain[i:i+1], u.in.Names.Leaf)} {
			if err != nil {
				u.warn(cert, err.Error()+"; clients with OpenSSL refuse what it signs, so replace the CA")
			}
		}
	}
}

// needed is a chain without what no path from its first certificate to a valid issuer needs, and that is not valid.
func (u *userCA) needed(chain []*x509.Certificate) []*x509.Certificate {
	needed, needless := pki.Needed(chain, u.in.Now)
	for _, cert := range needless {
		u.warnOfNeedless(cert)
	}
	return needed
}

func (u *userCA) warnOfNeedless(cert *x509.Certificate) {
	u.warn(cert, pki.CheckValidAt(cert, u.in.Now).Error()+", and nothing needs it; remove it")
}

// warn says something of a certificate of ca.crt.
func (u *userCA) warn(cert *x509.Certificate, text string) {
	u.warnings = append(u.warnings, Remark{
		Secret: u.in.Names.CertSecret, Part: entryPart(CertKey) + "/" + pki.FingerprintOf(cert).Short(), Text: CertKey + ": " + text,
	})
}

// furtherCAs says where other CAs than those of one chain belong.
func (u *userCA) furtherCAs() string {
	if u.in.Names.Holders == Users {
		return "put each further CA of users into an entry of its own whose name ends in " + certSuffix
	}
	return "put a CA that was used before into an entry " + datedPrefix + "<its expiry>" + certSuffix + ", for example " +
		datedPrefix + "2027-03-01T12-00-00Z" + certSuffix
}

func (u *userCA) readKey() *Problem {
	data := u.in.KeySecret.Data[KeyKey]
	if u.in.Names.Holders == Users && isPlaceholder(data) {
		u.warnings = append(u.warnings, Remark{
			Secret: u.in.Names.KeySecret, Part: entryPart(KeyKey), Text: KeyKey + " is a placeholder: user certificates cannot be issued",
		})
		return nil
	}
	remedy := "put the private key of the first certificate of " + CertKey + " there, as unencrypted PKCS#8"
	if len(data) == 0 {
		return &Problem{Object: u.in.keyObject(), Wrong: "the key " + KeyKey + " is missing", Remedy: remedy}
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return &Problem{Object: u.in.keyObject(), Wrong: KeyKey + ": " + err.Error(), Remedy: remedy}
	}
	if len(u.chain) > 0 && !key.Matches(u.chain[0]) {
		return &Problem{Object: u.in.keyObject(), Wrong: KeyKey + " does not belong to the first certificate of " + CertKey, Remedy: remedy}
	}
	u.key = key
	return nil
}

// isPlaceholder: users who sign their clients' certificates elsewhere put any
// text where the key would be, or nothing.
func isPlaceholder(data []byte) bool {
	return !pki.IsMeantAsPEM(data)
}

// checkOtherEntries validates each further certificate entry as strictly as the
// first; an expired one is no error but is trusted no more. Of a clients CA every
// entry that is a CA is trusted: users may have theirs from several.
func (u *userCA) checkOtherEntries() []Problem {
	var problems []Problem
	for _, key := range sortedKeys(u.in.CertSecret.Data) {
		if key == CertKey || !strings.HasSuffix(key, certSuffix) {
			continue
		}
		chain, err := pki.ParseChain(u.in.CertSecret.Data[key])
		if err == nil {
			err = pki.CheckChainOrder(chain)
		}
		if err != nil {
			problems = append(problems, Problem{Object: u.in.certObject(), Wrong: key + ": " + err.Error(), Remedy: "correct the entry or remove it"})
			continue
		}
		u.entries[pki.FingerprintOf(chain[0])] = key + " of " + u.in.certObject()
		switch {
		case !u.in.Now.Before(chain[0].NotAfter):
		case IsDatedCertKey(key):
			u.retained = append(u.retained, chain[0])
		case u.in.Names.Holders == Users && pki.CheckCA(chain[0]) == nil && !sameCertificate(chain[0], u.chain[0]):
			problems = append(problems, u.keep(key, chain)...)
		}
	}
	return problems
}

// keep takes a further CA for users, unless all that it signs would be refused.
func (u *userCA) keep(entry string, chain []*x509.Certificate) []Problem {
	if err := pki.CheckIssuer(chain, u.in.Names.Holders.usages()...); err != nil {
		return []Problem{{
			Object: u.in.certObject(), Wrong: entry + ": every certificate that it signs would be refused: " + err.Error(),
			Remedy: "correct the entry or remove it",
		}}
	}
	if !contains(u.kept, chain[0]) {
		u.kept = append(u.kept, chain[0])
	}
	return nil
}

func (u *userCA) decision() (Decision, error) {
	issuing := u.chain[0]
	d := Decision{
		Certificate:    issuing,
		Chain:          u.chain,
		Distrust:       u.in.asks(DistrustAnnotation),
		CertGeneration: u.certGen,
		KeyGeneration:  u.keyGen,
		Warnings:       u.warnings,
		RenewalAt:      issuing.NotAfter.Add(-u.in.Spec.Renewal()),
		Entries:        u.entries,
		settling:       &settling{in: u.in},
	}
	d.Published = []*x509.Certificate{issuing}
	for _, cert := range slices.Concat(u.retained, u.kept) {
		if !contains(d.Published, cert) {
			d.Published = append(d.Published, cert)
		}
	}
	d.Kept, d.Removed = u.kept, u.removed(d.Published)
	d.Retired = d.Published[1:]
	if err := u.crossSign(); err != nil {
		return Decision{}, err
	}
	d.Crosses, d.NoCross = u.crosses, cmp.Or(u.whyNoCross(), u.noCross)
	if u.in.Now.After(d.RenewalAt) {
		d.Warnings = append(d.Warnings, Remark{
			Secret: u.in.Names.CertSecret, Part: entryPart(CertKey) + ".notAfter",
			Text: "the certificate expires at " + issuing.NotAfter.UTC().Format("2006-01-02T15:04:05Z") + " and is yours to renew: put a new one into the Secret before then",
		})
	}
	if u.changedUnannounced() {
		d.Warnings = append(d.Warnings, Remark{
			Secret: u.in.Names.CertSecret, Part: entryPart(CertKey),
			Text: CertKey + " has changed and annotation " + u.in.Names.CertGeneration + " has not; the change takes effect anyway",
		})
	}
	d.Warnings = append(d.Warnings, u.noneToDistrust(d)...)
	sortRemarks(d.Warnings)
	if !u.key.IsZero() {
		ca, err := pki.NewAuthority(issuing, u.key, presentedAfterLeaf(u.chain)...)
		if err != nil {
			return Decision{}, invalid(Problem{Object: u.in.certObject(), Wrong: err.Error(), Remedy: "restore a CA and its key"})
		}
		d.Authority = ca
		d.Keys = append(d.Keys, ca)
	}
	former, err := u.formerAuthorities()
	if err != nil {
		return Decision{}, err
	}
	d.Keys = slices.Concat(d.Keys, former, u.retiredAuthorities())
	return d, nil
}

// removed are the anchors that pods mount and that are in no entry any more.
func (u *userCA) removed(published []*x509.Certificate) []*x509.Certificate {
	var removed []*x509.Certificate
	for _, anchor := range StoredAnchors(u.in.TrustedCerts) {
		if !contains(published, anchor.Certificate) {
			removed = append(removed, anchor.Certificate)
		}
	}
	return removed
}

// noneToDistrust names a request to distrust CAs where there is no other CA to distrust. The operator must
// not remove it from a Secret that it does not own, and it would distrust the present CA once another one
// follows.
func (u *userCA) noneToDistrust(d Decision) []Remark {
	others := slices.ContainsFunc(u.others(), func(c *x509.Certificate) bool { return !sameCertificate(c, d.Certificate) })
	switch {
	case !d.Distrust, others || len(d.Kept) > 0 || len(d.Crosses) > 0:
		return nil
	default:
		return []Remark{{Secret: u.in.Names.KeySecret, Part: anyPart(DistrustAnnotation), Text: fmt.Sprintf(
			"annotation %s has no effect, because %q is the only CA; remove it, or the CA that you replace next is distrusted at once",
			DistrustAnnotation, d.Certificate.Subject)}}
	}
}

// whyNoCross: besides leaves, a user's CA signs nothing here but its own key under
// another name.
func (u *userCA) whyNoCross() string {
	key := pki.KeyIDOf(u.chain[0])
	for _, cert := range u.others() {
		if pki.KeyIDOf(cert) != key && u.in.Now.Before(cert.NotAfter) {
			return fmt.Sprintf("the CA is your own, and Keyturn does not sign it with the key of the outgoing CA %q", cert.Subject)
		}
	}
	return ""
}

// others are the certificates besides the issuing one that a peer may rely on.
func (u *userCA) others() []*x509.Certificate {
	others := slices.Clone(u.retained)
	for _, anchor := range StoredAnchors(u.in.TrustedCerts) {
		others = append(others, anchor.Certificate)
	}
	return others
}

// changedUnannounced: the certificate is not the one that was in use, and the
// number that should have grown with it has not.
func (u *userCA) changedUnannounced() bool {
	anchors := StoredAnchors(u.in.TrustedCerts)
	isIssuing := func(a Anchor) bool { return sameCertificate(a.Certificate, u.chain[0]) }
	return len(anchors) > 0 && !slices.ContainsFunc(anchors, isIssuing) &&
		len(u.in.Evidence.Dependants) > 0 && u.certGen <= u.in.Evidence.CertGeneration
}

// retiredAuthorities are those whose keys the owner of the Secret kept beside the present one.
func (u *userCA) retiredAuthorities() []pki.Authority {
	var retired []pki.Authority
	for _, r := range retiredIn(u.in.KeySecret.Data) {
		for _, cert := range u.others() {
			if ca, err := pki.NewAuthority(cert, r.key); err == nil {
				retired = append(retired, ca)
				break
			}
		}
	}
	return retired
}

// presentedAfterLeaf is the chain without its root, which may stand there in several versions:
// what lets those who trust only the root verify a leaf. A chain of one presents nothing besides
// the leaf.
func presentedAfterLeaf(chain []*x509.Certificate) []*x509.Certificate {
	for len(chain) > 0 && pki.IssuedBy(chain[len(chain)-1], chain[len(chain)-1]) {
		chain = chain[:len(chain)-1]
	}
	return chain
}

func isSelfIssued(cert *x509.Certificate) bool { return bytes.Equal(cert.RawSubject, cert.RawIssuer) }
