package authority

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// Leaf is a stored leaf that was read.
type Leaf struct {
	StoredLeaf

	// Chain is the leaf followed by what is presented with it.
	Chain []*x509.Certificate
}

// LeafState is the leaf in use and what became of the request for another one.
type LeafState struct {
	// InForce is the stored leaf, nil without one that its key belongs to. An expired one stays in force until it is
	// replaced: without a leaf its holder receives no trust either.
	InForce *Leaf
	// Offered is an issued leaf that its holder has not adopted.
	Offered *Leaf
	Request RequestState
}

// RequestStatus is how far a request for a leaf is.
type RequestStatus string

// What a request without a leaf has come to.
const (
	// NoRequest: none is open.
	NoRequest RequestStatus = ""
	// RequestPending: the issuer has not answered.
	RequestPending RequestStatus = "Pending"
	// RequestDenied: the issuer denies it until a person changes something.
	RequestDenied RequestStatus = "Denied"
	// RequestOverdue: the issuer was to renew the leaf in force by itself, and has not.
	RequestOverdue RequestStatus = "Overdue"
)

// RequestState is a request for a leaf that is not issued.
type RequestState struct {
	Status RequestStatus
	// Since is when a pending request was made.
	Since time.Time
	// Why names who is waited for or what is wrong, and what a person can do.
	Why string
}

// settle adds to a decision what is published by it, given the stored leaf and the answer of the issuer.
func (d LeafDecision) settle(in LeafInput, inForce *Leaf) LeafDecision {
	d.State.InForce, d.Leaf = inForce, in.Want.rechained(inForce)
	if d.Act != ReissueLeaf {
		return d
	}
	switch answer := in.Answer.(type) {
	case issuer.Issued:
		chain := slices.Concat(answer.Chain[:1], in.Want.Chain)
		d.State.Offered = &Leaf{StoredLeaf{Certificates: pki.EncodeBundle(chain...), Key: answer.Key.PEM()}, chain}
		d.Act, d.Leaf = AdoptLeaf, d.State.Offered
	case issuer.Pending:
		d.Act, d.State.Request = HoldLeaf, RequestState{RequestPending, answer.Since, answer.Why}
	case issuer.Denied:
		d.Act, d.State.Request = HoldLeaf, RequestState{Status: RequestDenied, Why: answer.Why}
	}
	return d
}

// rechains reports whether other certificates are to be presented with a leaf. Those that belong to another signer are not.
func (w WantedLeaf) rechains(chain []*x509.Certificate) bool {
	return !w.Authority.IsZero() && !slices.EqualFunc(chain[1:], w.Chain, sameCertificate) &&
		pki.IssuedBy(chain[0], w.Authority.Certificate())
}

// rechained is the leaf with what is to be presented with it. A leaf that does not change keeps the bytes that are stored.
func (w WantedLeaf) rechained(l *Leaf) *Leaf {
	if l == nil || !w.rechains(l.Chain) {
		return l
	}
	chain := slices.Concat(l.Chain[:1], w.Chain)
	return &Leaf{StoredLeaf{Certificates: pki.EncodeBundle(chain...), Key: l.Key}, chain}
}
