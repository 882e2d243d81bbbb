package evidence

import (
	"crypto/x509"
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
	// formers are the same for certificates that their own key has signed as somebody
	// who is not known any more; empty stands for nobody.
	formers map[pki.Fingerprint]trust.KeyID
}

func newKeyring(certs []*x509.Certificate, now time.Time) keyring {
	k := keyring{certs: certs, now: now, signers: map[pki.Fingerprint]*x509.Certificate{}, formers: map[pki.Fingerprint]trust.KeyID{}}
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

// issuer is the authority that has issued a cross certificate. One that shares the key
// with its subject needs no certificate of its own to be known by: it may have left the
// domain, and who relies on it alone is served until the cross certificate ends.
func (k keyring) issuer(cross *x509.Certificate) (trust.KeyID, bool) {
	if signer, found := k.signer(cross); found {
		return KeyID(signer), true
	}
	fingerprint := pki.FingerprintOf(cross)
	former, known := k.formers[fingerprint]
	if !known {
		if id, found := pki.FormerNameOf(cross); found {
			former = trust.KeyID(id.String())
		}
		k.formers[fingerprint] = former
	}
	return former, former != ""
}

// identity is what a peer that presents the chain shows of itself, as far as
// trust is concerned. A leaf of a stranger has a signer that nobody trusts; a
// cross certificate that has expired is as good as none.
func (k keyring) identity(chain []*x509.Certificate) trust.Identity {
	if len(chain) == 0 {
		return trust.Identity{}
	}
	signer, found := k.signer(chain[0])
	if !found {
		return trust.Identity{Signer: stranger(pki.FingerprintOf(chain[0]).String())}
	}
	identity := trust.Identity{Signer: KeyID(signer)}
	for _, v := range k.way(identity.Signer, k.vouchers(chain[1:])) {
		identity.Cross = append(identity.Cross, v.issuer)
	}
	slices.Sort(identity.Cross)
	return identity
}

// stranger is the signer of a leaf of which nobody knows who signed it.
func stranger(leaf string) trust.KeyID { return trust.KeyID("unknown signer of " + leaf) }
