package domain

import (
	"crypto/x509"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Given is what a member is to be given by a domain.
type Given struct {
	// Main and Late are the anchors of its bundles.
	Main, Late []*x509.Certificate
	// Signer signs its leaf and has what is sent along with it; zero where its key is not at hand.
	Signer pki.Authority
	// Crosses are what is sent along.
	Crosses []*x509.Certificate
}

// Given is what a member is to be given, and whether the plan has the member.
func (d *Decided) Given(id trust.MemberID) (Given, bool) {
	planned, isPlanned := d.Plan.Publications[id]
	given := Given{
		Main: d.known.Certificates(planned.Main), Late: d.known.Certificates(planned.Late),
		Crosses: evidence.Crosses(d.known, d.Snapshot.Now, planned.Identity, d.Crosses),
	}
	given.Signer, _ = d.signer(planned.Identity.Signer)
	return given, isPlanned
}

// signer is the CA with a key, if that is at hand.
func (d *Decided) signer(key trust.KeyID) (pki.Authority, bool) {
	for _, ca := range d.Keys {
		if evidence.KeyID(ca.Certificate()) == key {
			return ca, true
		}
	}
	return pki.Authority{}, false
}
