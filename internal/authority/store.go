package authority

import (
	"fmt"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// keepStore returns the PKCS#12 store and its password. A stored store with the
// right content is returned byte by byte. The password changes only when there
// is none: applications have it in their configuration.
func keepStore(data map[string][]byte, entries []pki.TrustEntry) (store, password []byte, err error) {
	password = data[PasswordKey]
	if len(password) > 0 && pki.TrustStoreHolds(data[StoreKey], string(password), entries) {
		return data[StoreKey], password, nil
	}
	if len(password) == 0 {
		fresh, err := pki.NewPassword()
		if err != nil {
			return nil, nil, err
		}
		password = []byte(fresh)
	}
	store, err = pki.EncodeTrustStore(entries, string(password))
	if err != nil {
		return nil, nil, fmt.Errorf("encoding with the password in %s: %w", PasswordKey, err)
	}
	return store, password, nil
}

// keepForeignStores keeps stores that other clients put beside ours.
func keepForeignStores(into, stored map[string][]byte) {
	for key, value := range stored {
		ours := key == StoreKey || key == PasswordKey
		if !ours && (strings.HasSuffix(key, ".p12") || strings.HasSuffix(key, ".password")) {
			into[key] = value
		}
	}
}
