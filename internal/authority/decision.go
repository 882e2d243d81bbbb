package authority

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Decision is what happens to one authority, as far as that follows from its
// Secrets alone. What a replacement does next depends on the evidence of every
// peer: others decide that, and Settle turns it into the content of the Secrets.
type Decision struct {
	// Demand is what has to be there before anything else is decided, and nothing else of the decision counts; nil when it is.
	// Decide again with it in Input.Making.
	Demand *Demand
	// Authority is the present one: ca.key with its certificate. It is zero when
	// its key is lost or kept elsewhere; then it can sign nothing.
	Authority pki.Authority
	// Certificate is the present CA certificate: the entry of ca.crt that ca.key
	// belongs to, the first entry when the key is lost.
	Certificate *x509.Certificate
	// Pending takes the place of the present one; nil when no replacement is
	// under way. It is there in the very decision that starts it, too.
	Pending *Replacement
	// Keys are all authorities whose private key is at hand: the present one, the
	// pending one, and retired ones. Each presents the cross certificates of its
	// key. A user's present key may be that of retired ones, too, under other names.
	Keys []pki.Authority
	// Crosses are the unexpired cross certificates for any key, of any signer, those for the key of Target
	// first.
	Crosses []*x509.Certificate
	// NoCross says in one sentence why an outgoing authority has not signed
	// Target; empty when every unexpired one has.
	NoCross string
	// Published is what applications read now: the certificates of ca.crt in their
	// order, then those of dated entries that are not among them. Of a user's CA it
	// is the issuing certificate of ca.crt, its dated entries, and of a clients CA the
	// CAs of all other entries. It is empty before the first write.
	Published []*x509.Certificate
	// Chain is what ca.crt of a user's CA holds: the CA that issues leaves, then its
	// issuers. It is nil of a CA that Keyturn maintains.
	Chain []*x509.Certificate
	// Kept are those of Published that the owner of the authority wants trusted beside
	// it, for as long as they are there: they replace nothing and are replaced by
	// nothing.
	Kept []*x509.Certificate
	// Removed are the anchors that pods mount and the owner of the authority has taken
	// out of its Secrets.
	Removed []*x509.Certificate
	// Entries says where the owner of the authority keeps each certificate besides that
	// of ca.crt, for people.
	Entries map[pki.Fingerprint]string
	// Held is true of an authority whose Secrets cannot be used: it has no Target,
	// so that nothing moves, and its Secrets are not to be written. See Stand.
	Held bool
	// Retired are the unexpired certificates of other authorities: those that the Secrets keep under dated names or beside a
	// retired key, and those that nodes trust and no Secret has any more.
	Retired []*x509.Certificate
	// Distrust is true while a person distrusts every anchor but the target.
	Distrust bool
	// CertGeneration and KeyGeneration are those of the present authority, as
	// stored or as they are after the acts of this decision.
	CertGeneration Generation
	KeyGeneration  Generation
	// Transitions happen when the Secrets are written, in this order.
	Transitions []Transition
	// Waiting is what was asked for or is due, and does not happen yet.
	Waiting []Waiting
	// Warnings are worth a Warning condition each; sorted.
	Warnings []Remark
	// RenewalAt is when the present CA certificate is due for renewal.
	RenewalAt time.Time

	// settling is what Settle needs besides; nil unless Decide made this.
	settling *settling
}

// Demand is what a decision takes to make a CA certificate.
type Demand struct {
	// Key is the key that has to be made; nil when none has.
	Key *pki.KeyParams
	// Parent is true when the authority that signs has to be at hand.
	Parent bool
}

// Target is the certificate of the authority that shall sign everything in the
// end: the pending one, or the present one. It is nil of an authority that is Held.
func (d Decision) Target() *x509.Certificate {
	if d.Held {
		return nil
	}
	if d.Pending != nil {
		return d.Pending.Incoming.Certificate()
	}
	return d.Certificate
}

// SignerOf returns the authority with a key, and false when its private key is
// not at hand.
func (d Decision) SignerOf(key pki.KeyID) (pki.Authority, bool) {
	for _, ca := range d.Keys {
		if ca.Key().ID() == key {
			return ca, true
		}
	}
	return pki.Authority{}, false
}

// GenerationOf is the certificate generation that annotations carry for leaves
// that a CA issued: that of the present authority, one more for the pending
// one, one less for any that was replaced.
func (d Decision) GenerationOf(ca *x509.Certificate) Generation {
	is := func(other *x509.Certificate) bool { return pki.AuthorityIDOf(other) == pki.AuthorityIDOf(ca) }
	switch {
	case d.Pending != nil && is(d.Pending.Incoming.Certificate()):
		return d.CertGeneration + 1
	case d.Certificate != nil && is(d.Certificate):
		return d.CertGeneration
	default:
		return max(d.CertGeneration-1, 0)
	}
}

// ofKey are the certificates for a key.
func ofKey(certs []*x509.Certificate, key pki.KeyID) []*x509.Certificate {
	var found []*x509.Certificate
	for _, cert := range certs {
		if pki.KeyIDOf(cert) == key {
			found = append(found, cert)
		}
	}
	return found
}

// Replacement is an authority that is going to take the place of another.
type Replacement struct {
	Incoming pki.Authority
	// Cross are the unexpired cross certificates for its key, by every outgoing
	// authority that could sign it.
	Cross []*x509.Certificate
	// Reason says why it was started.
	Reason string
}

// Plan is what was decided about a domain from its evidence, as far as the two CA
// Secrets are concerned.
type Plan struct {
	// Application is what ca.crt shall hold, in this order; the first one leads.
	Application []*x509.Certificate
	// Signer is the certificate of the authority that signs leaves now.
	Signer *x509.Certificate
	// Stored are the anchors that the trusted-certs Secret holds after this pass.
	Stored []*x509.Certificate
	// CrossSigners are the authorities whose cross certificates a peer presents.
	CrossSigners []*x509.Certificate
	// Done is true when one authority is trusted and used, and nothing else.
	Done bool
}

// Settled is what the two CA Secrets shall hold.
type Settled struct {
	// Key and Cert are not Ours for a user's CA. Write Key first: a crash between
	// the two writes is then recognised by the next decision.
	Key  Desired
	Cert Desired
	// Authority and Certificate are the present ones after the write.
	Authority      pki.Authority
	Certificate    *x509.Certificate
	CertGeneration Generation
	KeyGeneration  Generation
	// Transitions happen when Key and Cert are written, in this order: those of
	// the decision, a promotion, removals.
	Transitions []Transition
}

// Desired is what a Secret shall hold.
type Desired struct {
	// Ours is false for Secrets that a user maintains: they are not written.
	Ours bool
	// Data is complete: any other key is to be removed.
	Data map[string][]byte
	// Annotations are those the authority maintains.
	Annotations map[string]string
	// RemoveAnnotations are served requests, sorted; they are to be removed even where another client set
	// them.
	RemoveAnnotations []string
}
