package authority

import (
	"crypto/x509"
	"errors"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// ErrForeignKey is a key that belongs to no certificate of its CA.
var ErrForeignKey = errors.New(KeyKey + " belongs to no entry of " + CertKey)

// Signer returns the CA that signs now, given the PEM bundle CertKey of a CA's certificate Secret and the
// data of its key Secret: the key, and the certificate in the bundle that it belongs to. Cross certificates
// are presented with each leaf. The error is ErrForeignKey where the key has no certificate.
func Signer(bundle []byte, keySecret map[string][]byte) (pki.Authority, error) {
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
	for _, certificate := range certificates {
		if key.Matches(certificate) {
			return pki.NewAuthority(certificate, key, crosses...)
		}
	}
	return pki.Authority{}, ErrForeignKey
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
