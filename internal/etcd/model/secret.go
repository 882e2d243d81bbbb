package model

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Trust is what all members of a cluster trust.
type Trust struct {
	// Anchors are the CA certificates of the cluster that a plane accepts.
	Anchors map[contract.Plane][]*x509.Certificate
	// Proofs are those that show a pod that it may trust these: see package enrollment.
	Proofs map[contract.Plane][]*x509.Certificate
	// Operators are the operator's own certificates as a client.
	Operators []*x509.Certificate
}

// MemberSecret is what the Secret of a member shall hold: the publication and the CA certificates, and no key. Stored
// is what it holds, told the newest revision that the pod of the member is known to have.
func MemberSecret(trust Trust, stored map[string][]byte, told int64, now time.Time) (publication.Publication, map[string][]byte, error) {
	previous, err := publication.ParsePublication(stored[agent.PublicationKey])
	if err != nil { // it is lost, or was changed by another client
		previous = publication.Publication{}
	}
	next := publication.Next(previous, told, publication.Content{
		Trust: trust.Roles(), Loading: publication.LoadByRestart, Operators: trust.Operators,
	}, now)
	encoded, err := next.Encode()
	if err != nil {
		return publication.Publication{}, nil, fmt.Errorf("rendering the Secret of a member: %w", err)
	}
	data := map[string][]byte{agent.PublicationKey: encoded}
	for _, plane := range contract.Planes() {
		data[plane.AnchorsKey()] = pki.EncodeBundle(trust.bundle(plane)...)
	}
	return next, data, nil
}

// IsComplete reports whether there is a CA to be trusted in each plane.
func (t Trust) IsComplete() bool {
	return !slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool { return len(t.Anchors[plane]) == 0 })
}

// bundle is what the Secret has of a plane.
func (t Trust) bundle(plane contract.Plane) []*x509.Certificate {
	bundle := slices.Clone(t.Anchors[plane])
	for _, proof := range t.Proofs[plane] {
		if !slices.ContainsFunc(bundle, proof.Equal) {
			bundle = append(bundle, proof)
		}
	}
	return bundle
}

// Roles are the names of the CA certificates by the role that accepts them.
func (t Trust) Roles() map[publication.Role][]string {
	roles := map[publication.Role][]string{}
	for plane, anchors := range t.Anchors {
		named := make([]string, 0, len(anchors))
		for _, anchor := range anchors {
			named = append(named, pki.FingerprintOf(anchor).String())
		}
		slices.Sort(named)
		roles[plane.Role()] = named
	}
	return roles
}
