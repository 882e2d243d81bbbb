package authority

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Peer is one process of the domain, terminating ones included, with what it
// was proven to have loaded.
type Peer struct {
	Name string
	// Known is false without evidence; such a peer keeps every gate shut.
	Known bool
	// Trusts are the anchors it accepts others by.
	Trusts []pki.Fingerprint
	// IssuedBy is the anchor under which the leaf it presents was issued. In a
	// domain whose leaves others present (the clients CA) it is the current anchor
	// once the peer trusts it.
	IssuedBy pki.Fingerprint
}

// TrustInput is everything that the anchors of one authority depend on.
type TrustInput struct {
	// Stored is the trusted-certs Secret.
	Stored Stored
	// Current issues leaves; Retained are the outgoing ones.
	Current  *x509.Certificate
	Retained []*x509.Certificate
	Peers    []Peer
	// Needed are anchors of what others than the peers present, such as users of
	// a clients CA: they stay until they expire.
	Needed []pki.Fingerprint
	Now    time.Time
}

// StateChange is a step of one anchor. From is empty for one that enters, To is
// empty for one that leaves.
type StateChange struct {
	Anchor pki.Fingerprint
	From   State
	To     State
}

// TrustDecision is what the trusted-certs Secret shall hold.
type TrustDecision struct {
	// Data is complete.
	Data map[string][]byte
	// Anchors are sorted by fingerprint.
	Anchors []Anchor
	// Changes are sorted by anchor.
	Changes []StateChange
}

// Published returns the anchors that peers shall load, sorted by fingerprint:
// of certificates with the same key only the one that ends last, since each of
// them verifies what the others do, and none in PhaseOut.
func (d TrustDecision) Published() []*x509.Certificate {
	newest := map[pki.KeyID]*x509.Certificate{}
	for _, anchor := range d.Anchors {
		key := pki.KeyIDOf(anchor.Certificate)
		best := newest[key]
		if anchor.State != PhaseOut && (best == nil || best.NotAfter.Before(anchor.Certificate.NotAfter)) {
			newest[key] = anchor.Certificate
		}
	}
	var certs []*x509.Certificate
	for _, anchor := range d.Anchors {
		if newest[pki.KeyIDOf(anchor.Certificate)] == anchor.Certificate {
			certs = append(certs, anchor.Certificate)
		}
	}
	return certs
}

// DecideTrust takes each anchor at most one step further. Only the current
// certificate enters as UNTRUSTED; when the whole Secret is missing on a running
// cluster, everything published enters as TRUSTED_UNUSED, because the pods that
// run were started with it.
func DecideTrust(in TrustInput) TrustDecision {
	t := trustPass{in: in, current: pki.FingerprintOf(in.Current)}
	t.enter()
	t.advance()
	return t.decision()
}

type trustPass struct {
	in      TrustInput
	current pki.Fingerprint
	anchors []Anchor
	entered map[pki.Fingerprint]bool
	out     TrustDecision
}

func (t *trustPass) enter() {
	t.entered = map[pki.Fingerprint]bool{}
	t.anchors = StoredAnchors(t.in.Stored)
	if t.in.Stored.Exists || len(t.in.Peers) == 0 {
		t.add(t.in.Current, Untrusted)
		return
	}
	for _, cert := range append([]*x509.Certificate{t.in.Current}, t.in.Retained...) {
		t.add(cert, t.lostState(cert))
	}
}

// lostState is where an anchor begins whose Secret was lost under running peers:
// trusted, since that is what they were started with, unless one of them proves
// the contrary.
func (t *trustPass) lostState(cert *x509.Certificate) State {
	fp := pki.FingerprintOf(cert)
	refuted := slices.ContainsFunc(t.in.Peers, func(p Peer) bool { return p.Known && !slices.Contains(p.Trusts, fp) })
	if refuted {
		return Untrusted
	}
	return TrustedUnused
}

func (t *trustPass) add(cert *x509.Certificate, state State) {
	fp := pki.FingerprintOf(cert)
	if slices.ContainsFunc(t.anchors, func(a Anchor) bool { return pki.FingerprintOf(a.Certificate) == fp }) {
		return
	}
	t.anchors = append(t.anchors, Anchor{Certificate: cert, State: state})
	t.entered[fp] = true
	t.out.Changes = append(t.out.Changes, StateChange{Anchor: fp, To: state})
}

func (t *trustPass) advance() {
	kept := t.anchors[:0:0]
	for _, anchor := range t.anchors {
		fp := pki.FingerprintOf(anchor.Certificate)
		if t.entered[fp] {
			kept = append(kept, anchor)
			continue
		}
		if t.mayLeave(anchor) {
			t.out.Changes = append(t.out.Changes, StateChange{Anchor: fp, From: anchor.State})
			continue
		}
		if next := t.next(anchor); next != anchor.State {
			t.out.Changes = append(t.out.Changes, StateChange{Anchor: fp, From: anchor.State, To: next})
			anchor.State = next
		}
		kept = append(kept, anchor)
	}
	t.anchors = kept
}

// use says how many peers present what an anchor issued.
type use string

const (
	usedByNone use = "none"
	usedByAny  use = "any"
	usedByAll  use = "all"
	// useUnknown: nobody is known to use it, and not everybody is known.
	useUnknown use = "unknown"
)

func (t *trustPass) use(fp pki.Fingerprint) use {
	using, unknown := 0, 0
	for _, peer := range t.in.Peers {
		switch {
		case !peer.Known:
			unknown++
		case peer.IssuedBy == fp:
			using++
		}
	}
	switch {
	case len(t.in.Peers) == 0:
		return useUnknown
	case using == len(t.in.Peers):
		return usedByAll
	case using > 0:
		return usedByAny
	case unknown > 0:
		return useUnknown
	default:
		return usedByNone
	}
}

// next follows the proposal's states. An anchor that is still the current one never
// phases out, whatever the peers present: new leaves are going to be issued by it.
func (t *trustPass) next(anchor Anchor) State {
	fp := pki.FingerprintOf(anchor.Certificate)
	if anchor.State == Untrusted && !t.trustedByAll(fp) {
		if t.isSuperseded(fp) && t.use(fp) == usedByNone {
			return PhaseOut
		}
		return Untrusted
	}
	switch t.use(fp) {
	case usedByAll:
		return TrustedInUseAll
	case usedByAny:
		return TrustedInUseAny
	case usedByNone:
		if t.isSuperseded(fp) {
			return PhaseOut
		}
	case useUnknown:
	}
	if anchor.State == Untrusted {
		return TrustedUnused
	}
	return anchor.State
}

// isSuperseded tells whether an anchor may phase out when no peer uses it.
func (t *trustPass) isSuperseded(fp pki.Fingerprint) bool {
	return fp != t.current && !slices.Contains(t.in.Needed, fp)
}

func (t *trustPass) trustedByAll(fp pki.Fingerprint) bool {
	return len(t.in.Peers) > 0 && !slices.ContainsFunc(t.in.Peers, func(p Peer) bool {
		return !p.Known || !slices.Contains(p.Trusts, fp)
	})
}

// mayLeave tells whether an anchor goes: it has phased out, nobody presents
// anything of it, and every peer verifies what is issued now. An expired anchor
// that is not current verifies nothing and goes as well.
func (t *trustPass) mayLeave(anchor Anchor) bool {
	fp := pki.FingerprintOf(anchor.Certificate)
	if fp == t.current {
		return false
	}
	if t.in.Now.After(anchor.Certificate.NotAfter) {
		return true
	}
	return anchor.State == PhaseOut && t.isSuperseded(fp) && t.use(fp) == usedByNone && t.trustedByAll(t.current)
}

func (t *trustPass) decision() TrustDecision {
	sortAnchors(t.anchors)
	t.out.Anchors = t.anchors
	t.out.Data = TrustedCerts(t.in.Stored, t.anchors)
	slices.SortStableFunc(t.out.Changes, func(a, b StateChange) int { return a.Anchor.Compare(b.Anchor) })
	return t.out
}

// TrustIn says whether every peer would verify what the signer issues from now
// on: it trusts the signer, or an unexpired anchor of the same key and name.
func TrustIn(signer *x509.Certificate, anchors []Anchor, peers []Peer, now time.Time) SignerTrust {
	var equivalent []pki.Fingerprint
	for _, anchor := range anchors {
		sameName := bytes.Equal(anchor.Certificate.RawSubject, signer.RawSubject)
		if sameName && pki.KeyIDOf(anchor.Certificate) == pki.KeyIDOf(signer) && now.Before(anchor.Certificate.NotAfter) {
			equivalent = append(equivalent, pki.FingerprintOf(anchor.Certificate))
		}
	}
	for _, peer := range peers {
		trusts := func(fp pki.Fingerprint) bool { return slices.Contains(peer.Trusts, fp) }
		if !peer.Known || !slices.ContainsFunc(equivalent, trusts) {
			return SignerNotTrusted
		}
	}
	return SignerTrusted
}

// SignerTrust says whether every peer is proven to trust the authority that
// would sign.
type SignerTrust string

// The two answers. Without evidence it is SignerNotTrusted.
const (
	SignerTrusted    SignerTrust = "SignerTrusted"
	SignerNotTrusted SignerTrust = "SignerNotTrusted"
)
