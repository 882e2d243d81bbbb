package domain

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/trust"
)

// Secret is what a Secret of the domain is to hold.
type Secret struct {
	authority.Desired

	Name string
}

// Secrets are those of the domain in the order in which they are written, and what has happened once they are. A crash
// after any of them is recognised by the next decision. A CA that is held has none.
func (d *Decided) Secrets() ([]Secret, []authority.Transition, error) {
	if d.Held {
		return nil, nil, nil
	}
	settled, err := d.Settle(d.caPlan())
	if err != nil {
		return nil, nil, fmt.Errorf("writing the Secrets of %s: %w", d.seen.CA.Names.Authority, err)
	}
	secrets := slices.DeleteFunc(d.ofCA(settled), func(s Secret) bool { return !s.Ours })
	return append(secrets, d.anchorsSecret()), settled.Transitions, nil
}

// ofCA puts the key first: it carries what a change of the certificate is recognised by, and after a crash at the beginning
// the certificate is made of it. What is left of a CA on which nothing depends goes before a beginning: beside the new key
// it would look as if two pairs were mixed up.
func (d *Decided) ofCA(settled authority.Settled) []Secret {
	names, present := d.seen.CA.Names, d.seen.CA.CertSecret
	key, cert := Secret{settled.Key, names.KeySecret}, Secret{settled.Cert, names.CertSecret}
	begins := slices.ContainsFunc(settled.Transitions, func(t authority.Transition) bool { return t.Kind == authority.Created })
	if !begins || len(present.Data) == 0 {
		return []Secret{key, cert}
	}
	emptied := cert
	emptied.Data, emptied.Annotations = nil, nil // the next one is counted from its generation
	return []Secret{emptied, key, cert}
}

// anchorsSecret is the Secret that has the state of each anchor.
func (d *Decided) anchorsSecret() Secret {
	application := d.certificates(d.Plan.Application)
	return Secret{Name: d.seen.CA.Names.TrustedCertsSecret, Desired: authority.Desired{
		Ours: true,
		Data: authority.TrustedCerts(d.seen.CA.TrustedCerts, d.anchors()),
		Annotations: map[string]string{
			ApplicationAnnotation:      strings.Join(namesOf(application), namesSeparator),
			ApplicationSinceAnnotation: d.applicationSince(application).UTC().Format(time.RFC3339),
		},
	}}
}

// anchors are what that Secret is to hold.
func (d *Decided) anchors() []authority.Anchor {
	var anchors []authority.Anchor
	for _, certificate := range d.known {
		if state := d.Plan.States[evidence.AnchorID(certificate)]; state != trust.Absent {
			anchors = append(anchors, authority.Anchor{Certificate: certificate, State: authority.State(state)})
		}
	}
	return anchors
}

// caPlan is what was decided about the two Secrets of the CA itself.
func (d *Decided) caPlan() authority.Plan {
	plan := authority.Plan{Application: d.certificates(d.Plan.Application), Done: d.Plan.Done}
	plan.Signer, _ = d.certificate(d.Plan.Signer)
	for _, anchor := range d.anchors() {
		plan.Stored = append(plan.Stored, anchor.Certificate)
	}
	for _, certificate := range d.known {
		if slices.Contains(d.Plan.Vouching, evidence.KeyID(certificate)) {
			plan.Vouching = append(plan.Vouching, certificate)
		}
	}
	return plan
}

func (d *Decided) certificate(id trust.AnchorID) (*x509.Certificate, bool) {
	i := slices.IndexFunc(d.known, func(c *x509.Certificate) bool { return evidence.AnchorID(c) == id })
	if i < 0 {
		return nil, false
	}
	return d.known[i], true
}

func (d *Decided) certificates(ids []trust.AnchorID) []*x509.Certificate {
	certificates := make([]*x509.Certificate, 0, len(ids))
	for _, id := range ids {
		if certificate, found := d.certificate(id); found {
			certificates = append(certificates, certificate)
		}
	}
	return certificates
}
