package evidence

import (
	"cmp"
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// AnchorID is the identity of a CA certificate in snapshots.
func AnchorID(cert *x509.Certificate) trust.AnchorID {
	return trust.AnchorID(pki.FingerprintOf(cert).String())
}

// KeyID is the identity of the key of a certificate in snapshots.
func KeyID(cert *x509.Certificate) trust.KeyID { return trust.KeyID(pki.KeyIDOf(cert).String()) }

// Known are all CA certificates of the domain that anybody holds, each once,
// sorted by identity.
func (d Domain) Known() []*x509.Certificate {
	all := slices.Clone(d.Held)
	for _, anchor := range d.Stored {
		all = append(all, anchor.Certificate)
	}
	all = append(all, d.Authority.Published...)
	for _, ca := range d.Authority.Keys {
		all = append(all, ca.Certificate())
	}
	for _, cert := range []*x509.Certificate{d.Authority.Certificate, d.Authority.Target()} {
		if cert != nil {
			all = append(all, cert)
		}
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int { return cmp.Compare(AnchorID(a), AnchorID(b)) })
	return slices.CompactFunc(all, func(a, b *x509.Certificate) bool { return AnchorID(a) == AnchorID(b) })
}

// anchors describes the known certificates. Those that only a report names are
// left out: nothing can be verified by a fingerprint.
func (d Domain) anchors(known keyring) []trust.Anchor {
	target := d.Authority.Target()
	anchors := make([]trust.Anchor, 0, len(known.certs))
	for _, cert := range known.certs {
		anchor := trust.Anchor{
			ID: AnchorID(cert), Name: pki.SHA1Name(cert), Key: KeyID(cert), NotAfter: cert.NotAfter,
			Stored: d.storedState(cert), Compromised: d.compromised(cert),
		}
		if target != nil && target.Equal(cert) {
			anchor.NoCross = d.Authority.NoCross
		}
		d.vouch(&anchor, known)
		anchors = append(anchors, anchor)
	}
	return anchors
}

// UsersSendNone is why an outgoing clients CA vouches for nobody.
const UsersSendNone = "users send no cross certificate along with theirs"

// vouch adds the cross certificate that nodes can send along for an anchor: the one
// by the newest authority. Java loads a key store with one unbroken chain and no
// other (measured on Kafka 4.3.1), so there can be only one.
func (d Domain) vouch(anchor *trust.Anchor, known keyring) {
	if d.Name == contract.ClientsDomain {
		anchor.NoCross = UsersSendNone
		return
	}
	var newest *x509.Certificate
	for _, cross := range d.Authority.Crosses {
		issuer, found := known.signer(cross)
		if KeyID(cross) != anchor.Key || !found || !known.now.Before(cross.NotAfter) {
			continue
		}
		if newest != nil && anchor.NoCross == "" {
			anchor.NoCross = "nodes can send one cross certificate along, and that is the one by the newest authority"
		}
		if newest == nil || issuer.NotBefore.After(newest.NotBefore) {
			newest = issuer
			anchor.Cross = []trust.Cross{{Issuer: KeyID(issuer), NotAfter: cross.NotAfter, Distrusted: d.compromised(issuer)}}
		}
	}
}

// compromised reports whether a person distrusts the certificate's key: every
// key but that of the authority to come.
func (d Domain) compromised(cert *x509.Certificate) bool {
	target := d.Authority.Target()
	return d.Authority.Distrust && target != nil && KeyID(target) != KeyID(cert)
}

func (d Domain) storedState(cert *x509.Certificate) trust.State {
	i := slices.IndexFunc(d.Stored, func(a authority.Anchor) bool { return a.Certificate.Equal(cert) })
	if i < 0 {
		return trust.Absent
	}
	return trust.State(d.Stored[i].State)
}
