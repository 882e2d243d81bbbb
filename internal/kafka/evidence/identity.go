package evidence

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// keyring finds out whose key signed a certificate.
type keyring struct {
	certs []*x509.Certificate
	now   time.Time
}

// signer returns a known CA certificate whose key signed the certificate.
func (k keyring) signer(cert *x509.Certificate) (*x509.Certificate, bool) {
	i := slices.IndexFunc(k.certs, func(ca *x509.Certificate) bool { return pki.SignedBy(cert, ca) })
	if i < 0 {
		return nil, false
	}
	return k.certs[i], true
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
