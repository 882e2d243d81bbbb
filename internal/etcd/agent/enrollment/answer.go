package enrollment

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// MaxAnswer is the longest value of an answering annotation that is decoded, in bytes: a
// leaf and pki.MaxCrosses cross certificates with RSA keys of 4,096 bits take half of it.
const MaxAnswer = 32 << 10

// The reasons for not using a chain, besides those of package pki.
var (
	// ErrNoAnswer says that the request is not answered yet.
	ErrNoAnswer = errors.New("it is not there yet")
	// ErrOtherKey says that the chain was issued for another key than the member's.
	ErrOtherKey = errors.New("it is a certificate for another key")
)

// Answer reads the chain, leaf first, that the operator returned in the annotation of
// the plane. It returns ErrNoAnswer when the value is empty, and otherwise says in one
// sentence why the answer is not usable.
func (g Grant) Answer(plane contract.Plane, value string, key Key, now time.Time) ([]*x509.Certificate, error) {
	chain, err := parse(value)
	if err != nil {
		return nil, err
	}
	return chain, g.Check(plane, chain, key, now)
}

// AnswerToClient is Answer for a pod that is a client of the cluster, and no member.
func (g Grant) AnswerToClient(value string, key Key, now time.Time) ([]*x509.Certificate, error) {
	chain, err := parse(value)
	if err != nil {
		return nil, err
	}
	return chain, g.check(contract.ClientPlane, chain, key, now, pki.ClientAuth)
}

func parse(value string) ([]*x509.Certificate, error) {
	if value == "" {
		return nil, ErrNoAnswer
	}
	if len(value) > MaxAnswer {
		return nil, pki.TooLong(len(value), MaxAnswer)
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("it is not base64: %w", err)
	}
	return pki.ParseChain(text)
}

// Key is the member's private key of a plane, as far as a decision needs it.
type Key interface {
	// Matches reports whether the certificate was issued for the key.
	Matches(certificate *x509.Certificate) bool
}

// Check refuses a chain that etcd must not present in the plane now: it is for another
// key, no accepted CA verifies it, it has expired or has not begun, or it lacks a usage.
func (g Grant) Check(plane contract.Plane, chain []*x509.Certificate, key Key, now time.Time) error {
	return g.check(plane, chain, key, now, usages(plane)...)
}

func (g Grant) check(plane contract.Plane, chain []*x509.Certificate, key Key, now time.Time, usages ...pki.Usage) error {
	if !key.Matches(chain[0]) {
		return ErrOtherKey
	}
	if err := pki.CheckValidAt(chain[0], now); err != nil {
		return err
	}
	return pki.Verify(chain, g.Anchors[plane], now, usages...)
}

// usages are what the certificates of a plane are for: members of the peer plane also
// dial with theirs.
func usages(plane contract.Plane) []pki.Usage {
	if plane == contract.PeerPlane {
		return pki.BothUsages()
	}
	return []pki.Usage{pki.ServerAuth}
}
