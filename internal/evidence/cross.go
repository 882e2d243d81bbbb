package evidence

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// voucher is a cross certificate: with it, the key of an older authority vouches
// for the key of a newer one.
type voucher struct {
	*x509.Certificate

	subject, issuer trust.KeyID
	// made is when the newest certificate of the issuer was made.
	made time.Time
}

// vouchers are the unexpired certificates in which one authority vouches for another.
func (k keyring) vouchers(certs []*x509.Certificate) []voucher {
	var vouchers []voucher
	for _, cert := range certs {
		issuer, found := k.issuer(cert)
		if !found || !k.now.Before(cert.NotAfter) || issuer == KeyID(cert) {
			continue
		}
		v := voucher{Certificate: cert, subject: KeyID(cert), issuer: issuer}
		for _, of := range k.of(v.issuer) {
			if of.NotBefore.After(v.made) {
				v.made = of.NotBefore
			}
		}
		vouchers = append(vouchers, v)
	}
	return vouchers
}

// of are the known certificates of a key that have not expired.
func (k keyring) of(key trust.KeyID) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(k.certs), func(cert *x509.Certificate) bool {
		return KeyID(cert) != key || !k.now.Before(cert.NotAfter)
	})
}

// way is the longest row of cross certificates from a key, each followed by one for its issuer's key; of
// several, that through the newest authorities. Peers that trust any of the issuers verify the key's
// leaves with the row. It is a single row because Java loads only a key store with one unbroken chain.
func (k keyring) way(from trust.KeyID, through []voucher) []voucher {
	return k.wayOn([]voucher{}, from, through)
}

func (k keyring) wayOn(so []voucher, from trust.KeyID, through []voucher) []voucher {
	var longest []voucher
	for _, v := range through {
		if v.subject != from || k.loops(so, v) || !k.carries(v, len(so)) {
			continue
		}
		way := append([]voucher{v}, k.wayOn(append(slices.Clone(so), v), v.issuer, through)...)
		if len(way) > len(longest) || len(way) == len(longest) && newer(v, longest[0]) {
			longest = way
		}
	}
	return longest
}

// newer prefers the younger authority, and of two certificates by one the one that
// lasts longer.
func newer(a, b voucher) bool {
	if !a.made.Equal(b.made) {
		return a.made.After(b.made)
	}
	return a.NotAfter.After(b.NotAfter)
}

// loops reports whether the row has been at the issuer already.
func (k keyring) loops(so []voucher, v voucher) bool {
	return slices.ContainsFunc(so, func(earlier voucher) bool { return earlier.subject == v.issuer })
}

// carries reports whether verifiers accept a cross certificate with so many others between it and the
// leaf. It must allow them, and so must every certificate of its issuer, because a peer may trust only
// that one.
func (k keyring) carries(v voucher, others int) bool {
	if others >= pki.MaxCrosses || !pki.Carries(v.Certificate, others) {
		return false
	}
	return !slices.ContainsFunc(k.of(v.issuer), func(cert *x509.Certificate) bool { return !pki.Carries(cert, others+1) })
}

// Crosses are the certificates by which the identity is vouched for, in the order in
// which they are sent along.
func Crosses(known []*x509.Certificate, now time.Time, identity trust.Identity, among []*x509.Certificate) []*x509.Certificate {
	if len(identity.Cross) == 0 {
		return nil
	}
	k := newKeyring(known, among, now)
	asked := slices.DeleteFunc(k.vouchers(among), func(v voucher) bool { return !slices.Contains(identity.Cross, v.issuer) })
	var crosses []*x509.Certificate
	for _, v := range k.way(identity.Signer, asked) {
		crosses = append(crosses, v.Certificate)
	}
	return crosses
}
