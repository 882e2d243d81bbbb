package evidence

import (
	"cmp"
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// AnchorID is the identity of a CA certificate in snapshots.
func AnchorID(cert *x509.Certificate) trust.AnchorID {
	return trust.AnchorID(pki.FingerprintOf(cert).String())
}

// KeyID is the identity of the authority that a CA certificate is about in snapshots, as
// verifiers tell them apart: a certificate of the same key with another subject or key
// identifier is about another authority.
func KeyID(cert *x509.Certificate) trust.KeyID { return trust.KeyID(pki.AuthorityIDOf(cert).String()) }

// sources are the CA certificates of the domain that stand in the authority's own
// Secrets.
func (d Domain) sources() []*x509.Certificate {
	all := slices.Clone(d.Authority.Published)
	for _, ca := range d.Authority.Keys {
		all = append(all, ca.Certificate())
	}
	if d.Retirement == trust.RetireExpired {
		all = append(all, d.Authority.Retired...)
	}
	for _, cert := range []*x509.Certificate{d.Authority.Certificate, d.Authority.Target()} {
		if cert != nil {
			all = append(all, cert)
		}
	}
	return all
}

// Known are all CA certificates of the domain, each once, sorted by identity. They are in the authority's
// own Secrets, or were given to a member. An unrelated certificate in the trusted-certs Secret was put
// there by hand, and is removed without having been given to any member.
func Known(c Cluster, d Domain) []*x509.Certificate {
	given := c.provenance(d.Name)
	maps.DeleteFunc(given, func(fingerprint string, _ bool) bool { return d.Distrusted[fingerprint] })
	all := append(d.sources(), c.held(d.Name, given)...)
	for _, anchor := range d.Stored {
		if given[string(AnchorID(anchor.Certificate))] {
			all = append(all, anchor.Certificate)
		}
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int { return cmp.Compare(AnchorID(a), AnchorID(b)) })
	return slices.CompactFunc(all, func(a, b *x509.Certificate) bool { return AnchorID(a) == AnchorID(b) })
}

// anchors describes the known certificates.
func (d Domain) anchors(known keyring, c *Cluster) []trust.Anchor {
	target, crosses, stored := d.Authority.Target(), c.markPresented(known.crossCertificates(d.Authority.Crosses)), d.stored(c.processes())
	ends := map[trust.KeyID]time.Time{}
	if d.Name == c.Own && c.Policy.Issuance == trust.Offered {
		ends = c.ended(known)
	}
	anchors := make([]trust.Anchor, 0, len(known.certs))
	for _, cert := range known.certs {
		anchor := trust.Anchor{
			ID: AnchorID(cert), Name: pki.SHA1Name(cert), Key: KeyID(cert), NotAfter: cert.NotAfter,
			Stored: stored[AnchorID(cert)], Compromised: d.compromised(KeyID(cert)), Signs: d.signs(cert),
			Kept:    slices.ContainsFunc(d.Authority.Kept, cert.Equal),
			Removed: slices.ContainsFunc(d.Authority.Removed, cert.Equal),
		}
		if target != nil && target.Equal(cert) {
			anchor.NoCross = d.Authority.NoCross
		} else if end, ended := ends[anchor.Key]; ended && end.Before(anchor.NotAfter) {
			anchor.NotAfter = end
		}
		if d.Name == c.Own {
			d.addCrosses(&anchor, known, crosses)
		} else {
			anchor.NoCross = UsersSendNone
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

// ended says when the last certificate of a signer has ended that a Secret or a process holds, where all of them have: an issuer
// signs by another one since, so that this one serves nothing any more.
func (c *Cluster) ended(known keyring) map[trust.KeyID]time.Time {
	ends := map[trust.KeyID]time.Time{}
	note := func(chain []*x509.Certificate, end time.Time) {
		if signer := known.identity(chain).Signer; end.After(ends[signer]) {
			ends[signer] = end
		}
	}
	for _, n := range c.processes() {
		if len(n.Presents) > 0 {
			note(n.Presents, n.Presents[0].NotAfter)
		}
		for _, loaded := range n.Report.Roles {
			note((view{Node: &n}).chain(loaded.Presents, loaded.Chain), LeafEnd(n.Report, loaded))
		}
	}
	if len(c.Operator) > 0 {
		note(c.Operator, c.Operator[0].NotAfter)
	}
	maps.DeleteFunc(ends, func(_ trust.KeyID, end time.Time) bool { return c.Now.Before(end) })
	return ends
}

// UsersSendNone is why an outgoing clients CA cross-signs no other.
const UsersSendNone = "users send no cross certificate along with theirs"

// addCrosses adds the cross certificates that nodes can send along for an anchor.
func (d Domain) addCrosses(anchor *trust.Anchor, known keyring, crosses []crossCertificate) {
	last := trust.Cross{}
	for _, v := range known.longestChain(anchor.Key, crosses) {
		last.Issuer, last.Distrusted = v.issuer, last.Distrusted || d.compromised(v.issuer)
		if last.NotAfter.IsZero() || v.NotAfter.Before(last.NotAfter) {
			last.NotAfter = v.NotAfter
		}
		anchor.Cross = append(anchor.Cross, last)
	}
	if anchor.NoCross == "" && slices.ContainsFunc(crosses, func(v crossCertificate) bool { return v.subject == anchor.Key && !isCrossSignedBy(anchor, v.issuer) }) {
		anchor.NoCross = "nodes can present only one unbroken chain of cross certificates, which cannot include every old CA"
	}
}

func isCrossSignedBy(anchor *trust.Anchor, key trust.KeyID) bool {
	return slices.ContainsFunc(anchor.Cross, func(c trust.Cross) bool { return c.Issuer == key })
}

// compromised reports whether a person distrusts a key: every one but that of the authority to come.
func (d Domain) compromised(key trust.KeyID) bool {
	target := d.Authority.Target()
	return d.Authority.Distrust && target != nil && KeyID(target) != key
}

// signs reports whether the key of a certificate is at hand.
func (d Domain) signs(cert *x509.Certificate) bool {
	return slices.ContainsFunc(d.Authority.Keys, func(ca pki.Authority) bool { return KeyID(ca.Certificate()) == KeyID(cert) })
}

// stored says what the trusted-certs Secret says of each certificate in it.
func (d Domain) stored(nodes []Node) map[trust.AnchorID]trust.State {
	states := make(map[trust.AnchorID]trust.State, len(d.Stored))
	for _, anchor := range d.Stored {
		states[AnchorID(anchor.Certificate)] = anchor.State
	}
	d.standIn(states, nodes)
	return states
}

// standIn says what the trusted-certs Secret would, where it is lost or never existed. New nodes trust an
// outgoing authority too while its Secrets keep it, if its leaves cannot be counted or no node reports. An
// authority that replaced others did so because every node had come to trust it.
func (d Domain) standIn(states map[trust.AnchorID]trust.State, nodes []Node) {
	is := func(w ProcessState) bool {
		return slices.ContainsFunc(nodes, func(n Node) bool { return n.State == w })
	}
	mute := is(Unknown) && !is(Running)
	say := func(cert *x509.Certificate, state trust.State) {
		if _, stored := states[AnchorID(cert)]; !stored && !d.compromised(KeyID(cert)) {
			states[AnchorID(cert)] = state
		}
	}
	if !mute && d.Retirement != trust.RetireExpired {
		return
	}
	for _, cert := range d.Authority.Retired {
		say(cert, trust.PhaseOut)
	}
	if present := d.Authority.Certificate; present != nil && (!present.Equal(d.Authority.Target()) || d.succeeded()) {
		say(present, trust.TrustedUnused)
	}
}

// succeeded reports whether the present authority has taken the place of another, by the
// steps of a rotation. A user's does when the user says so.
func (d Domain) succeeded() bool {
	return len(d.Authority.Retired) > 0 && d.Authority.Pending == nil && d.Authority.Chain == nil
}
