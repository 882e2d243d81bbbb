package model

import (
	"fmt"
	"maps"

	"github.com/keyturn/keyturn/internal/pki"
)

// Entries of the PKCS#12 store in the Secret of a user with a certificate.
const (
	StoreEntry    = "user.p12"
	PasswordEntry = "user.password"
)

// WithStore adds a PKCS#12 store with the key and chain of data to them. A stored one that holds the same is
// kept byte by byte, and so is its password: clients have it in their configuration.
func WithStore(data, stored map[string][]byte) (map[string][]byte, error) {
	key, err := pki.ParsePrivateKey(data[KeyEntry])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", KeyEntry, err)
	}
	chain, err := pki.ParseChain(data[CertificateEntry])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", CertificateEntry, err)
	}
	password := string(stored[PasswordEntry])
	if password == "" {
		if password, err = pki.NewPassword(); err != nil {
			return nil, err
		}
	}
	store := stored[StoreEntry]
	if !pki.KeyStoreHolds(store, password, key, chain) {
		if store, err = pki.EncodeKeyStore(key, chain, password); err != nil {
			return nil, fmt.Errorf("encoding %s with the password in %s: %w", StoreEntry, PasswordEntry, err)
		}
	}
	complete := maps.Clone(data)
	complete[StoreEntry], complete[PasswordEntry] = store, []byte(password)
	return complete, nil
}
