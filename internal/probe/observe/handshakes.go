package observe

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"time"

	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// MaxSpans bounds the record of one watch on one node: beyond it, changes
// are counted and no longer listed.
const MaxSpans = 2000

// unwatched is how long an answer speaks for a node. After it, nothing is known until the next one.
const unwatched = 15 * time.Second

// Presented is what a node showed in a handshake.
type Presented struct {
	// Leaf is the SHA-256 of the leaf's DER in lower-case hex; empty if the
	// handshake did not come so far.
	Leaf string `json:"leaf,omitempty"`
	// Authority is the identifier of the key that signed the leaf (the leaf's
	// authority key identifier), in lower-case hex.
	Authority string `json:"authority,omitempty"`
	// Issuer is the common name of the leaf's issuer, for people.
	Issuer string `json:"issuer,omitempty"`
	// Chain counts the certificates beside the leaf.
	Chain    int       `json:"chain,omitempty"`
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// PresentedBy is what the node at the other end of a connection showed, if that uses TLS.
func PresentedBy(conn net.Conn) Presented {
	if secured, ok := conn.(*tls.Conn); ok {
		return presented(secured.ConnectionState().PeerCertificates)
	}
	return Presented{}
}

// PresentedIn is what a node showed that a handshake with this error did not accept.
func PresentedIn(err error) Presented {
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return presented(unverified.UnverifiedCertificates)
	}
	return Presented{}
}

func presented(chain []*x509.Certificate) Presented {
	if len(chain) == 0 {
		return Presented{}
	}
	leaf := chain[0]
	fingerprint := sha256.Sum256(leaf.Raw)
	return Presented{
		Leaf:      hex.EncodeToString(fingerprint[:]),
		Authority: hex.EncodeToString(leaf.AuthorityKeyId),
		Issuer:    leaf.Issuer.CommonName,
		Chain:     len(chain) - 1,
		NotAfter:  leaf.NotAfter,
	}
}

// Tally counts fresh connections by what they proved.
type Tally struct {
	Accepted    uint64 `json:"accepted"`
	Refused     uint64 `json:"refused"`
	Interrupted uint64 `json:"interrupted"`
	Unreachable uint64 `json:"unreachable"`
}

// With is the tally after one more connection.
func (t Tally) With(v verdict.Verdict) Tally {
	switch v {
	case verdict.Accepted:
		t.Accepted++
	case verdict.Refused:
		t.Refused++
	case verdict.Interrupted:
		t.Interrupted++
	case verdict.Unreachable:
		t.Unreachable++
	}
	return t
}

// Span is a time in which a watch saw the same of a node.
type Span struct {
	From    time.Time       `json:"from"`
	To      time.Time       `json:"to"`
	Verdict verdict.Verdict `json:"verdict"`
	Reason  verdict.Reason  `json:"reason,omitempty"`
	// Presented is what the node showed, where it showed anything.
	Presented Presented `json:"presented,omitzero"`
	Count     uint64    `json:"count"`
}

func (s Span) same(other Span) bool {
	return s.Verdict == other.Verdict && s.Reason == other.Reason && s.Presented == other.Presented
}

// Watch is what one watch saw of one node.
type Watch struct {
	Node string `json:"node"`
	// Phases counts the connections by phase.
	Phases map[string]Tally `json:"phases"`
	Spans  []Span           `json:"spans"`
	// Dropped changes were not listed, because there were too many.
	Dropped uint64 `json:"dropped,omitempty"`
}

// Add records a connection in a phase. Its span extends the last one where that shows the same.
func (w *Watch) Add(phase string, span Span) {
	w.Phases[phase] = w.Phases[phase].With(span.Verdict)
	w.extend(span)
}

func (w *Watch) extend(span Span) {
	last := len(w.Spans) - 1
	switch {
	case w.Dropped > 0: // a list with a hole is not continued
		w.Dropped++
	case last >= 0 && w.Spans[last].same(span) && span.From.Sub(w.Spans[last].To) <= unwatched:
		w.Spans[last].To = span.To
		w.Spans[last].Count++
	case len(w.Spans) < MaxSpans:
		w.Spans = append(w.Spans, span)
	default:
		w.Dropped++
	}
}

// Sum adds up connections over nodes and phases.
func Sum(watches []Watch) Tally {
	var total Tally
	for _, watch := range watches {
		for _, tally := range watch.Phases {
			total = total.Plus(tally)
		}
	}
	return total
}

// Plus adds up two tallies.
func (t Tally) Plus(other Tally) Tally {
	return Tally{
		Accepted:    t.Accepted + other.Accepted,
		Refused:     t.Refused + other.Refused,
		Interrupted: t.Interrupted + other.Interrupted,
		Unreachable: t.Unreachable + other.Unreachable,
	}
}
