package authority

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// crossSign has the target's key signed by every authority that a peer may still rely on instead. A peer
// that trusts only one of those then verifies the target's leaves. Existing cross certificates stay; a
// missing one, or one that expires early because its issuer was renewed, is signed again.
func (d *decider) crossSign() error {
	if d.beginning {
		return nil
	}
	target := d.d.Target()
	for _, outgoing := range d.outgoing(target) {
		known := d.crossBy(outgoing[0], target)
		cross, why, err := d.in.crossSign(link{by: outgoing, key: d.keyOf(outgoing[0]), of: target}, known)
		if err != nil {
			return err
		}
		if why != "" && d.d.NoCross == "" {
			d.d.NoCross = why
		}
		d.crosses = exchange(d.crosses, known, cross)
	}
	d.sortCrosses(pki.KeyIDOf(target))
	return nil
}

// link is a cross certificate as it should be: its issuer and its subject.
type link struct {
	// by are the unexpired certificates of the outgoing authority, the one that ends
	// last first, and key is its key; zero when it is not at hand.
	by  []*x509.Certificate
	key pki.PrivateKey
	of  *x509.Certificate
}

// crossSign returns the cross certificate of a link: the known one while that lasts, or
// another. Without any it says in one sentence why there is none.
func (in Input) crossSign(l link, known *x509.Certificate) (cross *x509.Certificate, why string, err error) {
	if known != nil && !in.isShort(known, l) {
		return known, "", nil
	}
	if why := l.whyNot(); why != "" {
		if known != nil {
			why = ""
		}
		return known, why, nil
	}
	ca, err := pki.NewAuthority(l.by[0], l.key)
	if err == nil {
		cross, err = pki.CrossSign(ca, l.of, in.Now)
	}
	if err != nil {
		return nil, "", fmt.Errorf("signing the key of %q by %q: %w", l.of.Subject, l.by[0].Subject, err)
	}
	return cross, "", nil
}

// exchange puts one certificate in the place of another; either may be nil for none.
func exchange(certs []*x509.Certificate, old, now *x509.Certificate) []*x509.Certificate {
	if old == now {
		return certs
	}
	certs = slices.DeleteFunc(slices.Clone(certs), func(c *x509.Certificate) bool { return c == old })
	return append(certs, now)
}

// outgoing lists the unexpired certificates of every key but the target's, by key. Those of a key are in
// the order of their end, the last one first. Entries of ca.crt that nothing else knows belong to no
// authority.
func (d *decider) outgoing(target *x509.Certificate) [][]*x509.Certificate {
	byKey := map[pki.KeyID][]*x509.Certificate{}
	for _, cert := range d.reliedOn() {
		key := pki.KeyIDOf(cert)
		if key != pki.KeyIDOf(target) && d.in.Now.Before(cert.NotAfter) && !contains(byKey[key], cert) {
			byKey[key] = append(byKey[key], cert)
		}
	}
	sorted := make([][]*x509.Certificate, 0, len(byKey))
	for _, certs := range byKey {
		slices.SortFunc(certs, endsLater)
		sorted = append(sorted, certs)
	}
	slices.SortFunc(sorted, func(a, b []*x509.Certificate) int { return endsLater(a[0], b[0]) })
	return sorted
}

func endsLater(a, b *x509.Certificate) int {
	if c := b.NotAfter.Compare(a.NotAfter); c != 0 {
		return c
	}
	return pki.FingerprintOf(a).Compare(pki.FingerprintOf(b))
}

func (d *decider) reliedOn() []*x509.Certificate {
	relied := []*x509.Certificate{d.d.Certificate}
	for _, anchor := range d.o.trusted {
		relied = append(relied, anchor.Certificate)
	}
	for _, name := range sortedKeys(d.o.dated) {
		relied = append(relied, d.o.dated[name])
	}
	for _, retired := range d.retired {
		relied = append(relied, retired.filed...)
	}
	for _, cert := range d.o.bundle {
		if pki.KeyIDOf(cert) == pki.KeyIDOf(d.d.Certificate) {
			relied = append(relied, cert)
		}
	}
	return relied
}

// crossBy is the cross certificate for the target's key by an authority; nil when
// there is none.
func (d *decider) crossBy(outgoing, target *x509.Certificate) *x509.Certificate {
	for _, cross := range ofKey(d.crosses, pki.KeyIDOf(target)) {
		if pki.SignedBy(cross, outgoing) {
			return cross
		}
	}
	return nil
}

// isShort tells whether a cross certificate is about to end, and another one would
// last longer because its issuer or its subject was renewed.
func (in Input) isShort(cross *x509.Certificate, l link) bool {
	longer := l.by[0].NotAfter.After(cross.NotAfter) && l.of.NotAfter.After(cross.NotAfter)
	return longer && in.Now.After(cross.NotAfter.Add(-in.Spec.Renewal()))
}

// whyNot allows cross-signing only with a key that is at hand, and only when
// every unexpired certificate of it can carry another CA below: a verifier that
// knows but one of them refuses the chain otherwise.
func (l link) whyNot() string {
	if l.key.IsZero() {
		return fmt.Sprintf("the key of the outgoing CA %q is lost or kept elsewhere, so it has not signed its successor", l.by[0].Subject)
	}
	for _, cert := range l.by {
		if !pki.CanCrossSign(cert) {
			return fmt.Sprintf("certificate %s of the outgoing CA %q has path length 0 and is valid until %s, so it cannot sign its successor",
				pki.FingerprintOf(cert).Short(), cert.Subject, cert.NotAfter.UTC().Format(datedLayout))
		}
	}
	return ""
}

// keyOf is the private key of a certificate; zero when it is not at hand.
func (d *decider) keyOf(cert *x509.Certificate) pki.PrivateKey {
	if d.d.Authority.Key().Matches(cert) {
		return d.d.Authority.Key()
	}
	for _, retired := range d.retired {
		if retired.key.Matches(cert) {
			return retired.key
		}
	}
	return pki.PrivateKey{}
}

// sortCrosses puts those of the target first.
func (d *decider) sortCrosses(target pki.KeyID) {
	sorted := ofKey(d.crosses, target)
	for _, cross := range d.crosses {
		if pki.KeyIDOf(cross) != target {
			sorted = append(sorted, cross)
		}
	}
	d.crosses = sorted
}

// listKeys lists every authority that can sign, with what its leaves are presented
// with.
func (d *decider) listKeys() error {
	d.d.Crosses = d.crosses
	var err error
	if !d.d.Authority.IsZero() {
		if d.d.Authority, err = d.list(d.d.Authority); err != nil {
			return err
		}
	}
	if d.d.Pending != nil {
		pending := *d.d.Pending
		if pending.Incoming, err = d.list(pending.Incoming); err != nil {
			return err
		}
		pending.Cross = ofKey(d.crosses, pending.Incoming.Key().ID())
		d.d.Pending = &pending
	}
	for _, retired := range d.retired {
		cert := d.certificateOf(retired)
		if cert == nil {
			continue
		}
		ca, err := pki.NewAuthority(cert, retired.key)
		if err == nil {
			_, err = d.list(ca)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *decider) list(ca pki.Authority) (pki.Authority, error) {
	presents := ofKey(d.crosses, ca.Key().ID())
	if !isSelfIssued(ca.Certificate()) {
		presents = append([]*x509.Certificate{ca.Certificate()}, presents...)
	}
	ca, err := pki.NewAuthority(ca.Certificate(), ca.Key(), presents...)
	if err != nil {
		return pki.Authority{}, err
	}
	d.d.Keys = append(d.d.Keys, ca)
	return ca, nil
}

// certificateOf is the certificate of a retired key that ends last; nil when none
// is known any more.
func (d *decider) certificateOf(retired retiredKey) *x509.Certificate {
	var last *x509.Certificate
	for _, cert := range d.o.known() {
		if retired.key.Matches(cert) && (last == nil || endsLater(cert, last) < 0) {
			last = cert
		}
	}
	return last
}
