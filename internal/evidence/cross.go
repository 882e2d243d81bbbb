package evidence

import (
	"bytes"
	"cmp"
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
	// isPresented is true where a process sends a certificate of this subject by this issuer along already.
	isPresented bool
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

// way is the longest row of cross certificates from a key, each followed by one for its issuer's key. Of several, it is the one of
// which most is presented already, because peers may trust nothing else; then that through the newest authorities. Peers that
// trust any of the issuers verify the key's leaves with the row. It is one because Java loads only a key store with an unbroken chain.
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
		if len(longest) == 0 || compareWays(way, longest) > 0 {
			longest = way
		}
	}
	return longest
}

// compareWays is positive where the first way is the better one. Of two certificates by one authority, that which lasts longer is.
func compareWays(a, b []voucher) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(presented(a), presented(b)), a[0].made.Compare(b[0].made), a[0].NotAfter.Compare(b[0].NotAfter))
}

// presented says how many certificates of a way are presented already.
func presented(way []voucher) int {
	count := 0
	for _, v := range way {
		if v.isPresented {
			count++
		}
	}
	return count
}

// markPresented marks the vouchers of which processes send one of the same subject and issuer along.
func (c *Cluster) markPresented(vouchers []voucher) []voucher {
	for _, n := range c.processes() {
		for _, sent := range n.Presents[min(1, len(n.Presents)):] {
			for i := range vouchers {
				vouchers[i].isPresented = vouchers[i].isPresented || isSameLink(vouchers[i].Certificate, sent)
			}
		}
	}
	return vouchers
}

func isSameLink(a, b *x509.Certificate) bool {
	return KeyID(a) == KeyID(b) && bytes.Equal(a.RawIssuer, b.RawIssuer) && bytes.Equal(a.AuthorityKeyId, b.AuthorityKeyId)
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
