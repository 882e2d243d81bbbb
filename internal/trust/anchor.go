package trust

import (
	"slices"
	"time"
)

// AnchorID identifies a CA certificate: the SHA-256 of its DER in lower-case hex.
type AnchorID string

// KeyID identifies a CA key under the name that verifiers know it by: key, subject and
// key identifier, in lower-case hex. A renewed CA certificate is another anchor with the
// same KeyID; with another subject or key identifier it is another authority, because
// OpenSSL and the JVM do not accept the leaves of one by the other.
type KeyID string

// State is the state of an anchor in the trusted-certs Secret, spelt as there.
type State string

// The states, in the order in which an anchor passes them.
const (
	// Absent anchors are not in the Secret.
	Absent State = ""
	// Untrusted anchors are not yet trusted by every peer.
	Untrusted State = "UNTRUSTED"
	// TrustedUnused anchors are trusted by every peer and nothing is issued by them.
	TrustedUnused State = "TRUSTED_UNUSED"
	// InUseAny anchors issued what some peer presents.
	InUseAny State = "TRUSTED_IN_USE_ANY"
	// InUseAll anchors issued what every peer presents.
	InUseAll State = "TRUSTED_IN_USE_ALL"
	// PhaseOut anchors are superseded and issued nothing that a peer presents.
	PhaseOut State = "PHASE_OUT"
)

// Anchor is one CA certificate that the domain knows.
type Anchor struct {
	ID AnchorID `json:"id"`
	// Name is the SHA-1 by which Secrets call it; it identifies nothing.
	Name     string    `json:"name,omitempty"`
	Key      KeyID     `json:"key,omitempty"`
	NotAfter time.Time `json:"notAfter,omitzero"`
	// Cross lists who has cross-signed Key by certificates that are not expired.
	Cross []Cross `json:"cross,omitempty"`
	// NoCross says why a cross certificate by the outgoing authority is missing.
	NoCross string `json:"noCross,omitempty"`
	// Signs is true while the private key is at hand to sign leaves with.
	Signs bool `json:"signs,omitempty"`
	// Stored is its state in the trusted-certs Secret.
	Stored State `json:"stored,omitempty"`
	// Compromised is set when a person distrusts it now.
	Compromised bool `json:"compromised,omitempty"`
	// Kept is set while the owner of the authority wants it trusted beside the target.
	// It is not on its way out, and nothing waits for that.
	Kept bool `json:"kept,omitempty"`
	// Removed is set when the owner of the authority has taken it away: it goes although
	// others may hold leaves of it.
	Removed bool `json:"removed,omitempty"`
}

// Beside reports whether the anchor is trusted beside the target on purpose. While members present its leaves they
// have to be led to the target, as from any other.
func (a *Anchor) Beside(target AnchorID) bool {
	inUse := a.Stored == InUseAny || a.Stored == InUseAll
	return a.Kept && !a.Compromised && a.ID != target && !inUse
}

// Cross is a way from an anchor's key to an older authority, by one cross certificate or a row of them. A
// peer that trusts only that authority verifies the new leaves through it.
type Cross struct {
	// Issuer is the older authority.
	Issuer KeyID `json:"issuer"`
	// NotAfter is when the first certificate of the row ends.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// Distrusted is set when the issuer is compromised, or another in the row.
	Distrusted bool `json:"distrusted,omitempty"`
}

// Identity is what a peer presents, as far as trust is concerned.
type Identity struct {
	// Signer is the key that signed the leaf; empty when there is no leaf.
	Signer KeyID `json:"signer,omitempty"`
	// Cross lists the keys that signed the cross certificates sent along, sorted.
	Cross []KeyID `json:"cross,omitempty"`
}

// Stores is what one role of a peer trusts and presents.
type Stores struct {
	// Trust is sorted.
	Trust    []AnchorID `json:"trust,omitempty"`
	Identity Identity   `json:"identity,omitzero"`
}

// IsZero reports whether a role trusts and presents nothing.
func (s Stores) IsZero() bool { return len(s.Trust) == 0 && s.Identity.IsZero() }

// IsZero reports whether a peer presents nothing.
func (i Identity) IsZero() bool { return i.Signer == "" && len(i.Cross) == 0 }

func (s Stores) same(other Stores) bool {
	return slices.Equal(s.Trust, other.Trust) && s.Identity.same(other.Identity)
}

func (i Identity) same(other Identity) bool {
	return i.Signer == other.Signer && slices.Equal(i.Cross, other.Cross)
}
