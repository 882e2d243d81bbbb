package authority

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// StoredLeaf is a leaf as its Secret holds it. Missing entries are nil.
type StoredLeaf struct {
	// Certificates is the leaf followed by what is presented with it, in PEM.
	Certificates []byte
	// Key is the private key in PEM.
	Key []byte
}

// WantedLeaf is what a leaf shall be.
type WantedLeaf struct {
	Subject pki.Subject
	SANs    pki.SANs
	Key     pki.KeyParams
	// Usages are what an issuer's leaf is verified for.
	Usages []pki.Usage
	// Authority signs the leaf; zero where an issuer offers leaves.
	Authority pki.Authority
	// Anchors are the CAs by which every peer verifies a leaf that an issuer offers, and Named all that the user names
	// for it.
	Anchors, Named []*x509.Certificate
	// Interim are the CAs that are verified, too, but shall not sign in the end. An offered leaf of theirs replaces only
	// one that has to be replaced.
	Interim []*x509.Certificate
	// Chain is what is presented with the leaf, in this order: cross certificates
	// or intermediates.
	Chain    []*x509.Certificate
	Validity time.Duration
	// Renewal is how long before its end the leaf is reissued.
	Renewal time.Duration
}

// LeafInput is everything that the decision about a leaf depends on.
type LeafInput struct {
	Stored StoredLeaf
	Want   WantedLeaf
	Window Window
	// Waits says, for people, why a leaf that serves is not reissued now, by any signer; empty when it may
	// be.
	Waits string
	// Answer is what the issuer answered to the request for a leaf that is to be reissued; nil before it was asked.
	Answer issuer.Outcome
	Now    time.Time
}

// LeafAct is what shall become of a leaf.
type LeafAct string

// What can become of a leaf.
const (
	// KeepLeaf: it is as it shall be.
	KeepLeaf LeafAct = "Keep"
	// ReissueLeaf: a new key and certificate are to be asked for.
	ReissueLeaf LeafAct = "Reissue"
	// AdoptLeaf: what the issuer has issued replaces the stored leaf.
	AdoptLeaf LeafAct = "Adopt"
	// RechainLeaf: the leaf and its key stay, what is presented with it changes.
	RechainLeaf LeafAct = "Rechain"
	// PostponeLeaf: it is due and waits for a maintenance window.
	PostponeLeaf LeafAct = "Postpone"
	// HoldLeaf: it is due, and no key can sign it, its issuer has not issued it, or it waits.
	HoldLeaf LeafAct = "Hold"
)

// LeafReason says why a leaf is due.
type LeafReason string

// The reasons, in the order in which they are looked for.
const (
	LeafMissing       LeafReason = "Missing"
	LeafUnreadable    LeafReason = "Unreadable"
	LeafKeyMismatch   LeafReason = "KeyMismatch"
	LeafOutdated      LeafReason = "Expired"
	LeafSigner        LeafReason = "SignerChanged"
	LeafSubject       LeafReason = "SubjectChanged"
	LeafSANs          LeafReason = "SubjectAlternativeNamesChanged"
	LeafKeyParameters LeafReason = "KeyParametersChanged"
	LeafChain         LeafReason = "ChainChanged"
	LeafExpiring      LeafReason = "Expiring"
	LeafReissued      LeafReason = "Reissued"
)

// LeafDecision says what shall become of a leaf.
type LeafDecision struct {
	Act LeafAct
	// Reason is empty for KeepLeaf.
	Reason LeafReason
	// Detail is a sentence for people, without key material.
	Detail string
	// RenewalAt is when the stored leaf is due for renewal. It is its end where a renewal that is due would win nothing; zero
	// when there is none.
	RenewalAt time.Time
	// Until is when a postponed leaf is going to be issued, or the renewal of a kept one counts as overdue; zero when not known.
	Until time.Time
	State LeafState
	// Leaf is what is to be published: the leaf in force with its chain, or the one that replaces it. It is nil without any.
	Leaf *Leaf
}

// DecideLeaf says whether a stored leaf may stay. Everything but expiry acts at once; expiry waits for a
// maintenance window unless the leaf would not live that long. The caller names a signer that every peer
// verifies, and says when a leaf that serves must stay.
func DecideLeaf(in LeafInput) LeafDecision {
	l, broken := readLeaf(in)
	return l.decide(broken).settle(in, l.inForce())
}

func (l leafCheck) decide(broken *LeafDecision) LeafDecision {
	switch {
	case l.in.Want.Authority.IsZero():
		return l.unsigned(broken)
	case broken != nil:
		return *broken
	}
	d := LeafDecision{Act: KeepLeaf, RenewalAt: l.renewalAt()}
	if d.Reason, d.Detail = l.wrong(); d.Reason != "" {
		d.Act = ReissueLeaf
		return l.held(d)
	}
	expiring := l.expiring()
	switch {
	case expiring && l.mayRenewNow():
		d.Act = ReissueLeaf
	case l.in.Want.rechains(l.chain):
		d.Act, d.Reason, d.Detail = RechainLeaf, LeafChain, "the chain presented with it has changed"
		return d
	case expiring:
		d.Act, d.Until = PostponeLeaf, latest(l.in.Window, l.serves(), l.in.Want.Renewal)
	default:
		d.RenewalAt = l.lookAt()
		return d
	}
	d.Reason, d.Detail = LeafExpiring, "it expires at "+l.leaf.NotAfter.UTC().Format(time.RFC3339)
	return l.held(d)
}

// unsigned is what becomes of a leaf that no key can sign: a leaf that is as it shall be stays, and
// nothing is due.
func (l leafCheck) unsigned(broken *LeafDecision) LeafDecision {
	hold := func(why string) LeafDecision {
		return LeafDecision{Act: HoldLeaf, Reason: LeafSigner, Detail: why + "; the key of the CA that should sign it is missing, or that CA has expired"}
	}
	if broken != nil {
		return hold(broken.Detail)
	}
	if _, why := l.misfit(); why != "" {
		return hold(why)
	}
	if l.in.Now.After(l.renewalAt()) {
		return hold("it expires at " + l.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return LeafDecision{Act: KeepLeaf, RenewalAt: l.renewalAt()}
}

// leafCheck is a stored leaf; without a chain it cannot be read, or its key is another one.
type leafCheck struct {
	in    LeafInput
	leaf  *x509.Certificate
	chain []*x509.Certificate
	key   pki.PrivateKey
}

func (l leafCheck) inForce() *Leaf {
	if len(l.chain) == 0 {
		return nil
	}
	return &Leaf{l.in.Stored, l.chain}
}

// readLeaf reads what is stored. What cannot be used is reissued even before every peer trusts the signer,
// because there is nothing to keep.
func readLeaf(in LeafInput) (leafCheck, *LeafDecision) {
	broken := func(reason LeafReason, detail string) *LeafDecision {
		return &LeafDecision{Act: ReissueLeaf, Reason: reason, Detail: detail}
	}
	if len(in.Stored.Certificates) == 0 || len(in.Stored.Key) == 0 {
		return leafCheck{in: in}, broken(LeafMissing, "there is no certificate yet")
	}
	chain, err := pki.ParseBundle(in.Stored.Certificates)
	if err != nil {
		return leafCheck{in: in}, broken(LeafUnreadable, err.Error())
	}
	key, err := pki.ParsePrivateKey(in.Stored.Key)
	if err != nil {
		return leafCheck{in: in}, broken(LeafUnreadable, err.Error())
	}
	if !key.Matches(chain[0]) {
		return leafCheck{in: in}, broken(LeafKeyMismatch, "the key does not belong to the certificate")
	}
	l := leafCheck{in: in, leaf: chain[0], chain: chain, key: key}
	if in.Now.After(l.leaf.NotAfter) {
		return l, broken(LeafOutdated, "it expired at "+l.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return l, nil
}

// lookAt is when something is to be done about a leaf that stays. A time in the past causes no wake-up.
func (l leafCheck) lookAt() time.Time {
	if at := l.renewalAt(); l.in.Now.Before(at) {
		return at
	}
	return l.serves()
}

func (l leafCheck) renewalAt() time.Time { return l.leaf.NotAfter.Add(-l.in.Want.Renewal) }

// wrong says why a leaf cannot stay, whatever its age. The generation of its CA is
// no reason: a renewed CA with the same key has signed what the one before it
// signed.
func (l leafCheck) wrong() (LeafReason, string) {
	if ca := l.in.Want.Authority.Certificate(); !pki.IssuedBy(l.leaf, ca) {
		return LeafSigner, fmt.Sprintf("it was not issued by %q", ca.Subject)
	}
	return l.misfit()
}

// misfit says what is wrong with a leaf, apart from its signer.
func (l leafCheck) misfit() (LeafReason, string) {
	want := l.in.Want
	switch {
	case !pki.HasSubject(l.leaf, want.Subject):
		return LeafSubject, fmt.Sprintf("its subject is %q and should be %q", l.leaf.Subject, want.Subject)
	case !pki.SANsOf(l.leaf).Equal(want.SANs):
		return LeafSANs, sanDifference(pki.SANsOf(l.leaf), want.SANs)
	case l.key.Params().Algorithm != want.Key.Algorithm:
		return LeafKeyParameters, fmt.Sprintf("its key is %s and should be %s", l.key.Params(), want.Key)
	default:
		return "", ""
	}
}

// held lets a leaf that serves stay for now, if that is asked for. Its end is not
// waited for, and who signs is not put off.
func (l leafCheck) held(d LeafDecision) LeafDecision {
	ends := mustNotWait(Window{}, l.serves(), l.in.Want.Renewal, l.in.Now)
	if l.in.Waits != "" && d.Reason != LeafSigner && !ends {
		d.Act, d.Detail, d.Until = HoldLeaf, d.Detail+"; "+l.in.Waits, time.Time{}
	}
	return d
}

func (l leafCheck) mayRenewNow() bool {
	return l.in.Window.Open || mustNotWait(l.in.Window, l.serves(), l.in.Want.Renewal, l.in.Now)
}

// expiring tells whether renewal is due and would win anything: a leaf that ends
// with its CA cannot be made to last longer than that.
func (l leafCheck) expiring() bool {
	if !l.in.Now.After(l.renewalAt()) {
		return false
	}
	end := l.in.Now.Add(l.in.Want.Validity)
	if caEnd := l.in.Want.Authority.Certificate().NotAfter; caEnd.Before(end) {
		end = caEnd
	}
	return end.After(l.leaf.NotAfter)
}

func sanDifference(have, want pki.SANs) string {
	return fmt.Sprintf("names to add: %q, names to remove: %q", have.Lacks(want), want.Lacks(have))
}

func sameCertificate(a, b *x509.Certificate) bool { return bytes.Equal(a.Raw, b.Raw) }
