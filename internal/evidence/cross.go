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

// crossCertificate is one in which the key of an older authority has signed that of a newer one.
type crossCertificate struct {
	*x509.Certificate

	subject, issuer trust.KeyID
	// made is when the newest certificate of the issuer was made; zero where none is known.
	made time.Time
	// isPresented is true where a process sends a certificate of this subject by this issuer along already.
	isPresented bool
}

// crossCertificates are the unexpired certificates in which one authority has cross-signed another.
func (k keyring) crossCertificates(certs []*x509.Certificate) []crossCertificate {
	var crosses []crossCertificate
	for _, cert := range certs {
		issuer, found := k.issuer(cert)
		if !found || !k.now.Before(cert.NotAfter) || issuer == KeyID(cert) {
			continue
		}
		v := crossCertificate{Certificate: cert, subject: KeyID(cert), issuer: issuer}
		for _, of := range k.of(v.issuer) {
			if of.NotBefore.After(v.made) {
				v.made = of.NotBefore
			}
		}
		crosses = append(crosses, v)
	}
	return crosses
}

// of are the known certificates of a key that have not expired.
func (k keyring) of(key trust.KeyID) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(k.certs), func(cert *x509.Certificate) bool {
		return KeyID(cert) != key || !k.now.Before(cert.NotAfter)
	})
}

// longestChain is the longest chain of cross certificates from a key, each followed by one for its issuer's key. Of several, it is the
// one through most known authorities, because peers trust no others; then that of which most is presented already. A peer that
// trusts any of the issuers verifies the key's leaves with it. It is one because Java loads only a key store with an unbroken chain.
func (k keyring) longestChain(from trust.KeyID, through []crossCertificate) []crossCertificate {
	return k.longestChainFrom([]crossCertificate{}, from, through)
}

func (k keyring) longestChainFrom(so []crossCertificate, from trust.KeyID, through []crossCertificate) []crossCertificate {
	var longest []crossCertificate
	for _, v := range through {
		if v.subject != from || k.loops(so, v) || !k.carries(v, len(so)) {
			continue
		}
		chain := append([]crossCertificate{v}, k.longestChainFrom(append(slices.Clone(so), v), v.issuer, through)...)
		if len(longest) == 0 || compareChains(chain, longest) > 0 {
			longest = chain
		}
	}
	return longest
}

// compareChains is positive where the first chain is the better one. Of two certificates by one authority, that which lasts longer is.
func compareChains(a, b []crossCertificate) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(count(a, isByKnown), count(b, isByKnown)), cmp.Compare(count(a, isPresented), count(b, isPresented)), a[0].made.Compare(b[0].made), a[0].NotAfter.Compare(b[0].NotAfter))
}

func isByKnown(v crossCertificate) bool   { return !v.made.IsZero() }
func isPresented(v crossCertificate) bool { return v.isPresented }

func count(chain []crossCertificate, is func(crossCertificate) bool) int {
	found := 0
	for _, v := range chain {
		if is(v) {
			found++
		}
	}
	return found
}

// markPresented marks those of which processes present one of the same subject and issuer already.
func (c *Cluster) markPresented(crosses []crossCertificate) []crossCertificate {
	for _, n := range c.processes() {
		for _, sent := range n.Presents[min(1, len(n.Presents)):] {
			for i := range crosses {
				crosses[i].isPresented = crosses[i].isPresented || isSameLink(crosses[i].Certificate, sent)
			}
		}
	}
	return crosses
}

func isSameLink(a, b *x509.Certificate) bool {
	return KeyID(a) == KeyID(b) && bytes.Equal(a.RawIssuer, b.RawIssuer) && bytes.Equal(a.AuthorityKeyId, b.AuthorityKeyId)
}

// loops reports whether the chain has been at the issuer already.
func (k keyring) loops(so []crossCertificate, v crossCertificate) bool {
	return slices.ContainsFunc(so, func(earlier crossCertificate) bool { return earlier.subject == v.issuer })
}

// carries reports whether verifiers accept a cross certificate with so many others between it and the
// leaf. It must allow them, and so must every certificate of its issuer, because a peer may trust only
// that one.
func (k keyring) carries(v crossCertificate, others int) bool {
	if others >= pki.MaxCrosses || !pki.Carries(v.Certificate, others) {
		return false
	}
	return !slices.ContainsFunc(k.of(v.issuer), func(cert *x509.Certificate) bool { return !pki.Carries(cert, others+1) })
}

// Crosses are the certificates by which the identity is cross-signed, in the order in
// which they are sent along.
func Crosses(known []*x509.Certificate, now time.Time, identity trust.Identity, among []*x509.Certificate) []*x509.Certificate {
	if len(identity.Cross) == 0 {
		return nil
	}
	k := newKeyring(known, among, now)
	asked := slices.DeleteFunc(k.crossCertificates(among), func(v crossCertificate) bool { return !slices.Contains(identity.Cross, v.issuer) })
	var crosses []*x509.Certificate
	for _, v := range k.longestChain(identity.Signer, asked) {
		crosses = append(crosses, v.Certificate)
	}
	return crosses
}
