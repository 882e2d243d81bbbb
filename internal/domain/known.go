package domain

import (
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/trust"
)

// Known are the CA certificates that a snapshot is about.
type Known []*x509.Certificate

// Certificate is the one that a decision names, and whether it is known.
func (k Known) Certificate(id trust.AnchorID) (*x509.Certificate, bool) {
	i := slices.IndexFunc(k, func(c *x509.Certificate) bool { return evidence.AnchorID(c) == id })
	if i < 0 {
		return nil, false
	}
	return k[i], true
}

// Certificates are those of the names that are known.
func (k Known) Certificates(ids []trust.AnchorID) []*x509.Certificate {
	certificates := make([]*x509.Certificate, 0, len(ids))
	for _, id := range ids {
		if certificate, found := k.Certificate(id); found {
			certificates = append(certificates, certificate)
		}
	}
	return certificates
}

// Anchors are what the trusted-certs Secret is to hold by a plan.
func (k Known) Anchors(plan trust.Plan) []authority.Anchor {
	var anchors []authority.Anchor
	for _, certificate := range k {
		if state := plan.States[evidence.AnchorID(certificate)]; state != trust.Absent {
			anchors = append(anchors, authority.Anchor{Certificate: certificate, State: state})
		}
	}
	return anchors
}

// CAPlan is what a plan says about the two Secrets of the CA itself.
func (k Known) CAPlan(plan trust.Plan) authority.Plan {
	ca := authority.Plan{Application: k.Certificates(plan.Application), Done: plan.Done}
	ca.Signer, _ = k.Certificate(plan.Signer)
	for _, anchor := range k.Anchors(plan) {
		ca.Stored = append(ca.Stored, anchor.Certificate)
	}
	for _, certificate := range k {
		if slices.Contains(plan.CrossSigners, evidence.KeyID(certificate)) {
			ca.CrossSigners = append(ca.CrossSigners, certificate)
		}
	}
	return ca
}
