package binding

import (
	"crypto/x509"
	"fmt"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// addStores adds PKCS#12 stores of the certificates and the key in data. The Secret has passwords of its own, which
// stay: clients have them in their configuration. A held store that is current is kept byte by byte.
func addStores(data, held map[string][]byte) error {
	if bundle, there := data[truststore]; there {
		if err := addTruststore(data, held, bundle); err != nil {
			return err
		}
	}
	if certificate, there := data[keystore]; there {
		return addKeystore(data, held, certificate)
	}
	return nil
}

func addTruststore(data, held map[string][]byte, bundle []byte) error {
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		return noStore(truststoreStore, err)
	}
	entries := trustEntries(certificates)
	data[truststoreStore], data[truststorePassword], err = keepStore(held[truststoreStore], held[truststorePassword],
		func(store []byte, password string) bool { return pki.TrustStoreHolds(store, password, entries) },
		func(password string) ([]byte, error) { return pki.EncodeTrustStore(entries, password) })
	if err != nil {
		return noStore(truststoreStore, err)
	}
	return nil
}

// trustEntries name the entries of a store, in which names must differ.
func trustEntries(certificates []*x509.Certificate) []pki.TrustEntry {
	entries := make([]pki.TrustEntry, 0, len(certificates))
	for _, certificate := range distinct(certificates) {
		entries = append(entries, pki.TrustEntry{Alias: pki.SHA1Name(certificate) + ".crt", Certificate: certificate})
	}
	return entries
}

func addKeystore(data, held map[string][]byte, certificate []byte) error {
	chain, err := pki.ParseChain(certificate)
	if err != nil {
		return noStore(keystoreStore, err)
	}
	key, err := pki.ParsePrivateKey(data[keystoreKey])
	if err != nil {
		return noStore(keystoreStore, err)
	}
	data[keystoreStore], data[keystorePassword], err = keepStore(held[keystoreStore], held[keystorePassword],
		func(store []byte, password string) bool { return pki.KeyStoreHolds(store, password, key, chain) },
		func(password string) ([]byte, error) { return pki.EncodeKeyStore(key, chain, password) })
	if err != nil {
		return noStore(keystoreStore, err)
	}
	return nil
}

// keepStore returns a store and its password: the held ones as far as they can be used.
func keepStore(store, password []byte, isCurrent func([]byte, string) bool, encode func(string) ([]byte, error)) (newStore, newPassword []byte, err error) {
	if len(password) > 0 {
		if isCurrent(store, string(password)) {
			return store, password, nil
		}
		if store, err := encode(string(password)); err == nil {
			return store, password, nil
		}
	}
	fresh, err := pki.NewPassword()
	if err != nil {
		return nil, nil, err
	}
	store, err = encode(fresh)
	return store, []byte(fresh), err
}

func noStore(key string, why error) error {
	return &NotReadyError{
		Reason:  IncompleteSecret,
		Problem: fmt.Sprintf("No PKCS#12 store %s can be made of what is copied: %s.", key, excerpt.Of(why.Error(), excerpt.Foreign)),
		Remedy:  "Correct the Secret that is copied from, or set spec.pkcs12 to false.",
	}
}
