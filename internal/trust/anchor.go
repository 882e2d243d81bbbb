package trust

import "time"

// AnchorID identifies a CA certificate: the SHA-256 of its DER in lower-case hex.
type AnchorID string

// KeyID identifies a CA key: the SHA-256 of its SPKI in lower-case hex. A renewed
// CA certificate is another anchor with the same key.
type KeyID string

// State is the state of an anchor in the trusted-certs Secret, spelt as there.
type State string

// The states, in the order in which an anchor passes them. The empty state
// means that the Secret does not hold the anchor.
const (
	Absent        State = ""
	Untrusted     State = "UNTRUSTED"
	TrustedUnused State = "TRUSTED_UNUSED"
	InUseAny      State = "TRUSTED_IN_USE_ANY"
	InUseAll      State = "TRUSTED_IN_USE_ALL"
	PhaseOut      State = "PHASE_OUT"
)

// Anchor is one CA certificate that the domain knows.
type Anchor struct {
	ID AnchorID
	// Name is the SHA-1 by which Secrets call it; it identifies nothing.
	Name     string
	Key      KeyID
	NotAfter time.Time
	// Cross lists the cross certificates for Key that are not expired.
	Cross []Cross
	// NoCross says why a cross certificate by the outgoing authority is missing.
	NoCross string
	// Stored is its state in the trusted-certs Secret.
	Stored State
	// Compromised is set when a person distrusts it now.
	Compromised bool
}

// Cross is a certificate for an anchor's key, signed by an older authority: whoever
// trusts only that one verifies the new leaves through it.
type Cross struct {
	Issuer   KeyID
	NotAfter time.Time
	// Distrusted is set when the issuing authority is compromised.
	Distrusted bool
}

// Identity is what a peer presents, as far as trust is concerned.
type Identity struct {
	// Signer is the key that signed the leaf; empty when there is no leaf.
	Signer KeyID
	// Cross lists the keys that signed the cross certificates sent along, sorted.
	Cross []KeyID
}

// Stores is what one role of a peer trusts and presents.
type Stores struct {
	// Trust is sorted.
	Trust    []AnchorID
	Identity Identity
}
