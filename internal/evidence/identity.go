package evidence

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// keyring finds out which authority issued a certificate. Every role of every node shows
// the same few certificates, and signatures are what a decision takes its time for:
// each is verified once, and not by two certificates of one key.
type keyring struct {
	certs []*x509.Certificate
	now   time.Time
	// keys are the first certificates of each key.
	keys []*x509.Certificate
	// signers are the results so far; nil stands for a stranger.
	signers map[pki.Fingerprint]*x509.Certificate
	// crosses are the certificates that are known to be cross certificates and no part
	// of a user's chain.
	crosses []*x509.Certificate
	// forgotten are the unknown issuers of cross certificates, by the fingerprint of what they signed; empty
	// for a certificate without such an issuer.
	forgotten map[pki.Fingerprint]trust.KeyID
	// issuance says whether leaves may be issued by CAs below the known ones: then they are presented with them.
	issuance trust.Issuance
}

func newKeyring(certs, crosses []*x509.Certificate, now time.Time) keyring {
	k := keyring{
		certs: certs, crosses: crosses, now: now,
		signers: map[pki.Fingerprint]*x509.Certificate{}, forgotten: map[pki.Fingerprint]trust.KeyID{},
	}
	seen := map[trust.KeyID]bool{}
	for _, cert := range certs {
		if key := KeyID(cert); !seen[key] {
			seen[key] = true
			k.keys = append(k.keys, cert)
		}
	}
	return k
}

// signer returns a known CA certificate by which verifiers accept the certificate.
func (k keyring) signer(cert *x509.Certificate) (*x509.Certificate, bool) {
	fingerprint := pki.FingerprintOf(cert)
	signer, known := k.signers[fingerprint]
	if !known {
		i := slices.IndexFunc(k.keys, func(ca *x509.Certificate) bool { return pki.IssuedBy(cert, ca) })
		if i >= 0 {
			signer = k.keys[i]
		}
		k.signers[fingerprint] = signer
	}
	return signer, signer != nil
}

// issuer is the authority that has issued a cross certificate. It needs no certificate
// of its own to be known by: it may have left the domain, and who relies on it alone is
// served until the cross certificate ends.
func (k keyring) issuer(cross *x509.Certificate) (trust.KeyID, bool) {
	if signer, found := k.signer(cross); found {
		return KeyID(signer), true
	}
	fingerprint := pki.FingerprintOf(cross)
	issuer, known := k.forgotten[fingerprint]
	if !known {
		issuer = k.forgottenIssuer(cross)
		k.forgotten[fingerprint] = issuer
	}
	return issuer, issuer != ""
}

// forgottenIssuer finds an issuer by the key that it shares with the subject, by a
// cross certificate of its own, or by nothing but what verifiers look for it by.
func (k keyring) forgottenIssuer(cross *x509.Certificate) trust.KeyID {
	if id, found := pki.FormerNameOf(cross); found {
		return trust.KeyID(id.String())
	}
	if !slices.ContainsFunc(k.crosses, cross.Equal) {
		return ""
	}
	if i := slices.IndexFunc(k.crosses, func(c *x509.Certificate) bool { return pki.IssuedBy(cross, c) }); i >= 0 {
		return KeyID(k.crosses[i])
	}
	return trust.KeyID(fmt.Sprintf("issuer %x %x", cross.RawIssuer, cross.AuthorityKeyId))
}

// identity is what a peer that presents the chain shows of itself, as far as trust is concerned. A leaf of
// an unknown CA has a signer that no peer trusts. An expired cross certificate counts as none.
func (k keyring) identity(chain []*x509.Certificate) trust.Identity {
	if len(chain) == 0 {
		return trust.Identity{}
	}
	signer, found := k.above(chain)
	if !found {
		return trust.Identity{Signer: stranger(pki.FingerprintOf(chain[0]).String())}
	}
	identity := trust.Identity{Signer: KeyID(signer)}
	for _, v := range k.longestChain(identity.Signer, k.besides(chain[1:]).crossCertificates(chain[1:])) {
		identity.Cross = append(identity.Cross, v.issuer)
	}
	slices.Sort(identity.Cross)
	return identity
}

// besides is the keyring for a peer that sends certificates along. Those that lead to a known CA are cross certificates, although
// nothing else may remember the CAs between.
func (k keyring) besides(sent []*x509.Certificate) keyring {
	known := slices.Clone(k.crosses)
	for range sent {
		for _, cert := range sent {
			_, found := k.signer(cert)
			if !slices.ContainsFunc(known, cert.Equal) && (found || slices.ContainsFunc(known, func(c *x509.Certificate) bool { return pki.IssuedBy(cert, c) })) {
				known = append(known, cert)
			}
		}
	}
	if len(known) > len(k.crosses) {
		k.crosses, k.forgotten = known, map[pki.Fingerprint]trust.KeyID{}
	}
	return k
}

// above is the known CA by which verifiers accept the first certificate of a chain.
func (k keyring) above(chain []*x509.Certificate) (*x509.Certificate, bool) {
	needed := k.needed(chain)
	return k.signer(needed[len(needed)-1])
}

// needed is the beginning of a chain that verifiers need who trust the known CAs: the leaf, and where an issuer offers leaves the
// CAs between it and a known one.
func (k keyring) needed(chain []*x509.Certificate) []*x509.Certificate {
	for i := range chain {
		switch _, found := k.signer(chain[i]); {
		case found:
			return chain[:i+1]
		case k.issuance != trust.Offered || i+1 == len(chain) || !pki.IssuedBy(chain[i], chain[i+1]):
			return chain[:1]
		}
	}
	return nil
}

// stranger is the signer of a leaf whose signer is unknown.
func stranger(leaf string) trust.KeyID { return trust.KeyID("unknown signer of " + leaf) }
