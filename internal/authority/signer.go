package authority

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// ErrForeignKey is a key that belongs to no certificate of its CA.
var ErrForeignKey = errors.New(KeyKey + " belongs to no entry of " + CertKey)

// Signer returns the CA that signs now, given the PEM bundle CertKey of a CA's certificate Secret and the
// data of its key Secret: the key, and the certificate in the bundle that it belongs to. A version of it that is not
// valid is passed over where there is one that is. Cross certificates are presented with each leaf. The error is ErrForeignKey where the key has no certificate.
func Signer(bundle []byte, keySecret map[string][]byte, now time.Time) (pki.Authority, error) {
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		return pki.Authority{}, err
	}
	key, err := pki.ParsePrivateKey(keySecret[KeyKey])
	if err != nil {
		return pki.Authority{}, err
	}
	var crosses []*x509.Certificate
	if text := keySecret[CrossKey]; len(text) > 0 {
		if crosses, err = pki.ParseBundle(text); err != nil {
			return pki.Authority{}, err
		}
	}
	own := slices.DeleteFunc(certificates, func(cert *x509.Certificate) bool { return !key.Matches(cert) })
	if len(own) == 0 {
		return pki.Authority{}, ErrForeignKey
	}
	valid := max(0, slices.IndexFunc(own, func(cert *x509.Certificate) bool { return pki.CheckValidAt(cert, now) == nil }))
	return pki.NewAuthority(own[valid], key, crosses...)
}

// PublishedCAs are the certificates in the entries of a CA's certificate Secret: the CA in use and those before it that
// nodes still trust. What cannot be read is left out.
func PublishedCAs(certSecret map[string][]byte) []*x509.Certificate {
	var all []*x509.Certificate
	for _, entry := range sortedKeys(certSecret) {
		if certificates, err := pki.ParseBundle(certSecret[entry]); err == nil && strings.HasSuffix(entry, certSuffix) {
			all = append(all, certificates...)
		}
	}
	return all
}
