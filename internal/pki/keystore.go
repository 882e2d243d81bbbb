package pki

import (
	"crypto"
	"crypto/x509"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// EncodeKeyStore renders a key and its certificate as a PKCS#12 store. The bytes differ each time because of the
// salt: compare stores with KeyStoreHolds, never by bytes.
func EncodeKeyStore(key PrivateKey, leaf *x509.Certificate, password string) ([]byte, error) {
	data, err := pkcs12.Modern2023.Encode(key.Signer(), leaf, nil, password)
	if err != nil {
		return nil, fmt.Errorf("encoding key store: %w", err)
	}
	return data, nil
}

// KeyStoreHolds tells whether a stored PKCS#12 store can be opened with the password and holds exactly the key and
// its certificate.
func KeyStoreHolds(data []byte, password string, key PrivateKey, leaf *x509.Certificate) bool {
	if len(data) > MaxBundleBytes || checkKeyWorkFactor(data) != nil {
		return false
	}
	storedKey, storedLeaf, others, err := pkcs12.DecodeChain(data, password)
	if err != nil || len(others) > 0 || !storedLeaf.Equal(leaf) {
		return false
	}
	private, is := storedKey.(interface{ Public() crypto.PublicKey })
	if !is {
		return false
	}
	public, is := private.Public().(interface{ Equal(crypto.PublicKey) bool })
	return is && public.Equal(key.Signer().Public())
}
