package authority

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/keyturn/keyturn/internal/pki"
)

// parsePending reads the replacement that a key Secret holds under its pending
// names. Half a replacement is an error: it is written at once or not at all.
// Only what can be made again, the cross certificates, may be damaged.
func parsePending(stored Stored) (Replacement, error) {
	if len(stored.Data[PendingCertKey]) == 0 {
		return Replacement{}, errors.New(PendingKeyKey + " is there without " + PendingCertKey)
	}
	key, err := pki.ParsePrivateKey(stored.Data[PendingKeyKey])
	if err != nil {
		return Replacement{}, fmt.Errorf("%s: %w", PendingKeyKey, err)
	}
	cert, err := pki.ParseCertificate(stored.Data[PendingCertKey])
	if err != nil {
		return Replacement{}, fmt.Errorf("%s: %w", PendingCertKey, err)
	}
	incoming, err := pki.NewAuthority(cert, key)
	if err != nil {
		return Replacement{}, fmt.Errorf("%s and %s: %w", PendingKeyKey, PendingCertKey, err)
	}
	return Replacement{
		Incoming: incoming,
		Cross:    ofKey(crossesIn(stored, PendingCrossKey), key.ID()),
		Reason:   PendingKeyKey + " is in its Secret",
	}, nil
}

// crossesIn reads cross certificates. A damaged text counts as none: they are
// signed again while those who could sign them are at hand.
func crossesIn(stored Stored, name string) []*x509.Certificate {
	certs, err := pki.ParseBundle(stored.Data[name])
	if err != nil {
		return nil
	}
	return certs
}
