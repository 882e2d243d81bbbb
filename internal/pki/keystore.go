package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

var errNoChain = errors.New("encoding key store: there is no certificate")

// EncodeKeyStore renders a key and its chain, the certificate of the key first, as a PKCS#12 store. The bytes differ
// each time because of the salt: compare stores with KeyStoreHolds, never by bytes.
func EncodeKeyStore(key PrivateKey, chain []*x509.Certificate, password string) ([]byte, error) {
	if len(chain) == 0 {
		return nil, errNoChain
	}
	data, err := pkcs12.Modern2023.Encode(key.Signer(), chain[0], chain[1:], password)
	if err != nil {
		return nil, fmt.Errorf("encoding key store: %w", err)
	}
	return data, nil
}

// KeyStoreHolds tells whether a stored PKCS#12 store can be opened with the password and holds exactly the key and
// its chain in this order.
func KeyStoreHolds(data []byte, password string, key PrivateKey, chain []*x509.Certificate) bool {
	if len(data) > MaxBundleBytes || checkKeyWorkFactor(data) != nil {
		return false
	}
	storedKey, storedLeaf, issuers, err := pkcs12.DecodeChain(data, password)
	if err != nil || !slices.EqualFunc(append([]*x509.Certificate{storedLeaf}, issuers...), chain, (*x509.Certificate).Equal) {
		return false
	}
	private, is := storedKey.(interface{ Public() crypto.PublicKey })
	if !is {
		return false
	}
	public, is := private.Public().(interface{ Equal(crypto.PublicKey) bool })
	return is && public.Equal(key.Signer().Public())
}
