package domain

import (
	"crypto/x509"
	"slices"
	"time"

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
		Main: d.Known.Certificates(planned.Main), Late: d.Known.Certificates(planned.Late),
		Crosses: d.SentAlong(planned.Identity, d.presented(id)),
	}
	given.Signer = d.SignerBy(planned.Identity.Signer)
	return given, isPlanned
}

// presented is what a member presents so far.
func (d *Decided) presented(id trust.MemberID) []*x509.Certificate {
	if id == evidence.OperatorMember {
		return d.seen.Members.Operator
	}
	nodes := d.seen.Members.Nodes
	i := slices.IndexFunc(nodes, func(n evidence.Node) bool { return n.Name == string(id) })
	if i < 0 {
		return nil
	}
	return nodes[i].Presents
}

// Signing is the CA that signs for peers that the plan does not know, with the certificates that are
// included with its leaves. Both are zero where its key is not at hand.
func (d *Decided) Signing() (pki.Authority, []*x509.Certificate) {
	certificate, isKnown := d.Known.Certificate(d.Plan.Signer)
	if !isKnown {
		return pki.Authority{}, nil
	}
	signer := d.SignerBy(evidence.KeyID(certificate))
	return signer, signer.Presents()
}

// SentAlong are the cross certificates that an identity sends along: those of the CA, and, of a CA that is no more, those that were
// sent so far.
func (d *Decided) SentAlong(identity trust.Identity, before []*x509.Certificate) []*x509.Certificate {
	crosses := evidence.Crosses(d.Known, d.Snapshot.Now, identity, d.Crosses)
	if len(crosses) == len(identity.Cross) {
		return crosses
	}
	return evidence.Crosses(d.Known, d.Snapshot.Now, identity, slices.Concat(d.Crosses, before))
}

// SignerBy is the CA with a key; zero where that is not at hand.
func (d *Decided) SignerBy(key trust.KeyID) pki.Authority {
	for _, ca := range d.Keys {
		if evidence.KeyID(ca.Certificate()) == key {
			return ca
		}
	}
	return pki.Authority{}
}

// Trusted are the CA certificates that members are to trust, or may still trust.
func (d *Decided) Trusted() []*x509.Certificate {
	anchors := d.Known.Anchors(d.Plan)
	trusted := make([]*x509.Certificate, 0, len(anchors))
	for _, anchor := range anchors {
		trusted = append(trusted, anchor.Certificate)
	}
	return trusted
}

// Former are the holders of certificates of another CA than the one that is to stay. A CA that is known no more is trusted by
// nothing. Whose key a renewed one keeps is for the caller to say.
func (d *Decided) Former() []trust.MemberID {
	anchors := d.Snapshot.Anchors
	at := slices.IndexFunc(anchors, func(a trust.Anchor) bool { return a.ID == d.Snapshot.Issuing })
	if at < 0 {
		return nil
	}
	var former []trust.MemberID
	for i := range d.Snapshot.Members {
		m := &d.Snapshot.Members[i]
		signer := m.Published.Identity.Signer
		isKnown := slices.ContainsFunc(anchors, func(a trust.Anchor) bool { return a.Key == signer })
		if m.Kind == trust.Holder && isKnown && signer != anchors[at].Key {
			former = append(former, m.ID)
		}
	}
	return former
}

// HoldersEnd is when the certificates of holders end.
func (d *Decided) HoldersEnd() []time.Time {
	ends := make([]time.Time, 0, len(d.seen.Holders))
	for _, holder := range d.seen.Holders {
		ends = append(ends, holder.NotAfter)
	}
	return ends
}
