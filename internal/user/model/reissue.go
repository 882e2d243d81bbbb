package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Shortened is why a certificate is issued that is valid for longer than it shall be.
const Shortened authority.LeafReason = "ValidityShortened"

// lifetimeSlack is more than a certificate is valid before it is issued.
const lifetimeSlack = 2 * pki.Backdate

// outlives reports whether a certificate that would stay is valid for longer than one that is issued now. It must also
// have been issued for longer: a clock that is wrong reissues nothing.
func (o Observed) outlives(leaf authority.LeafDecision) bool {
	if leaf.Act != authority.KeepLeaf || o.CA.Signer.IsZero() {
		return false
	}
	stored, err := pki.FirstCertificate(o.stored()[CertificateEntry])
	validity := o.certificate().Validity
	return err == nil && stored.NotAfter.After(o.Now.Add(validity)) && stored.NotAfter.Sub(stored.NotBefore) > validity+lifetimeSlack
}

// takesTurn reports whether a certificate that is to be reissued still serves and is one of many: a change of the clients
// CA or of its configuration reissues those of all users.
func (o Observed) takesTurn(leaf authority.LeafDecision) bool {
	if IsForced(o.Secret) {
		return false
	}
	switch leaf.Reason {
	case authority.LeafSigner:
		return !o.CA.IsDistrusted && o.CA.trusts(o.stored(), o.Now)
	case authority.LeafKeyParameters, Shortened:
		return true
	default:
		return false
	}
}

// DependsOnAnchors reports whether a CA signs users, and the stored certificate is of another one or the Kafka names another one.
func (o Observed) DependsOnAnchors() bool {
	if o.CA.Signer.IsZero() {
		return false
	}
	leaf, err := pki.FirstCertificate(o.stored()[CertificateEntry])
	isOfAnotherCA := err == nil && !pki.IssuedBy(leaf, o.CA.Signer.Certificate())
	return isOfAnotherCA || OfIssuer(o.Kafka)
}

// SignerInForce is the CA that signs, and what is wrong where it does not: nodes trust it for former certificates alone, because an
// issuer has taken its place.
func (o Observed) SignerInForce() (signer pki.Authority, problem string) {
	isOutgoing := func(anchor authority.Anchor) bool {
		return anchor.State == trust.PhaseOut && pki.KeyIDOf(anchor.Certificate) == pki.KeyIDOf(o.CA.Signer.Certificate())
	}
	if !OfIssuer(o.Kafka) || !slices.ContainsFunc(o.CA.Anchors, isOutgoing) {
		return o.CA.Signer, o.CAProblem
	}
	return pki.Authority{}, fmt.Sprintf("Kafka %s has its clients CA from an issuer, and the CA before that is being phased out. Certificates in use "+
		"stay valid, and none is issued. %s", o.Kafka.Name, turnOnGate)
}

// awaitsTrust reports whether a certificate that nodes accept is to be replaced by one that not all of them do. The owner of a
// clients CA replaces it in one step, and nodes learn of it later.
func (o Observed) awaitsTrust() bool {
	if len(o.CA.Anchors) == 0 {
		return false
	}
	chain, err := pki.ParseBundle(o.stored()[CertificateEntry])
	serves, signs := false, false
	for _, anchor := range o.CA.Anchors {
		if anchor.State == trust.Untrusted {
			continue
		}
		serves = serves || err == nil && verifies(anchor.Certificate, chain, o.Now)
		signs = signs || anchor.State != trust.PhaseOut && pki.KeyIDOf(anchor.Certificate) == pki.KeyIDOf(o.CA.Signer.Certificate())
	}
	return serves && !signs
}

// trusts reports whether nodes accept the stored certificate by one of the CAs that they trust for clients.
func (ca CA) trusts(stored map[string][]byte, now time.Time) bool {
	leaf, err := pki.FirstCertificate(stored[CertificateEntry])
	if err != nil {
		return false
	}
	for _, trusted := range ca.Trusted {
		if now.Before(trusted.NotAfter) && pki.IssuedBy(leaf, trusted) {
			return true
		}
	}
	return false
}

// Seen is a user as its last reconcile left it.
type Seen struct {
	User types.NamespacedName
	// IsKnown is false before the first reconcile.
	IsKnown bool
	IsReady bool
	// Waits: the certificate serves, and is to be reissued when it is the user's turn.
	Waits bool
	// AwaitsTrust: the certificate serves, and is to be reissued when all nodes trust the CA that signs.
	AwaitsTrust bool
	// NotBefore and NotAfter are those of the certificate, zero where there is none.
	NotBefore, NotAfter time.Time
}

// BatchPause is between two batches of reissued certificates.
const BatchPause = time.Second

// NextBatch says whose certificates are reissued now, and when the next ones are: zero when no others wait. Those that
// expire first come first, at most rate of them; last is when the previous batch was.
func NextBatch(users []Seen, rate int, last, now time.Time) (batch []Seen, next time.Time) {
	for _, user := range users {
		if user.Waits {
			batch = append(batch, user)
		}
	}
	// A previous batch that is still to come is that of a clock which was set back.
	if next = last.Add(BatchPause); len(batch) > 0 && next.After(now) && !last.After(now) {
		return nil, next
	}
	slices.SortFunc(batch, func(a, b Seen) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.User.String(), b.User.String()))
	})
	if len(batch) <= rate {
		return batch, time.Time{}
	}
	return batch[:rate], now.Add(BatchPause)
}

// namedUnmanaged is how many users that are no KafkaUsers the status names.
const namedUnmanaged = 20

// CountUnmanaged adds the users that Kafka holds something for and that are no KafkaUsers.
func CountUnmanaged(status *kafkav1.UsersStatus, names []string) {
	count := int32(0)
	for range names {
		count++
	}
	status.Unmanaged = &count
	status.UnmanagedNames = excerpt.Each(names[:min(len(names), namedUnmanaged)], excerpt.Foreign)
}

// Progress counts the users of a cluster for its status.
func Progress(users []Seen) kafkav1.UsersStatus {
	status := kafkav1.UsersStatus{}
	for _, user := range users {
		status.Total++
		if user.IsReady {
			status.Ready++
		}
		if user.IsKnown && !user.Waits && !user.AwaitsTrust {
			status.Reissued++
		}
		if !user.NotBefore.IsZero() && (status.Oldest == nil || user.NotBefore.Before(status.Oldest.Time)) {
			status.Oldest = &metav1.Time{Time: user.NotBefore}
		}
	}
	return status
}
