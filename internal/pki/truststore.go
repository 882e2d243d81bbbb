package pki

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

// TrustEntry is one trusted certificate of a PKCS#12 store.
type TrustEntry struct {
	// Alias names the entry. A JVM keeps one entry per alias, so two CAs under
	// one alias are one CA.
	Alias       string
	Certificate *x509.Certificate
}

// EncodeTrustStore renders entries as a PKCS#12 store that a JVM reads as trusted
// certificates. The bytes differ each time because of the salt: compare stores
// with TrustStoreHolds, never by bytes.
func EncodeTrustStore(entries []TrustEntry, password string) ([]byte, error) {
	if len(entries) == 0 {
		return nil, errors.New("encoding trust store: no certificate")
	}
	seen := map[string]bool{}
	converted := make([]pkcs12.TrustStoreEntry, 0, len(entries))
	for _, entry := range entries {
		if entry.Alias == "" || seen[entry.Alias] {
			return nil, fmt.Errorf("encoding trust store: alias %q is empty or used twice", entry.Alias)
		}
		seen[entry.Alias] = true
		converted = append(converted, pkcs12.TrustStoreEntry{Cert: entry.Certificate, FriendlyName: entry.Alias})
	}
	data, err := pkcs12.Modern2023.EncodeTrustStoreEntries(converted, password)
	if err != nil {
		return nil, fmt.Errorf("encoding trust store: %w", err)
	}
	return data, nil
}

// DecodeTrustStore returns the trusted certificates of a PKCS#12 store in the
// order of the store. Aliases are not returned.
func DecodeTrustStore(data []byte, password string) ([]*x509.Certificate, error) {
	if len(data) > MaxBundleBytes {
		return nil, fmt.Errorf("decoding trust store: it has %d bytes: at most %d are read", len(data), MaxBundleBytes)
	}
	if err := checkWorkFactor(data); err != nil {
		return nil, fmt.Errorf("decoding trust store: %w", err)
	}
	certs, err := pkcs12.DecodeTrustStore(data, password)
	if err != nil {
		return nil, fmt.Errorf("decoding trust store: %w", err)
	}
	return certs, nil
}

// TrustStoreHolds tells whether a stored PKCS#12 store can be opened with the
// password and holds exactly the certificates of entries, in any order.
func TrustStoreHolds(data []byte, password string, entries []TrustEntry) bool {
	certs, err := DecodeTrustStore(data, password)
	if err != nil {
		return false
	}
	have := fingerprints(certs)
	want := make([]Fingerprint, 0, len(entries))
	for _, entry := range entries {
		want = append(want, FingerprintOf(entry.Certificate))
	}
	slices.SortFunc(want, Fingerprint.Compare)
	return slices.Equal(have, want)
}

func fingerprints(certs []*x509.Certificate) []Fingerprint {
	out := make([]Fingerprint, 0, len(certs))
	for _, cert := range certs {
		out = append(out, FingerprintOf(cert))
	}
	slices.SortFunc(out, Fingerprint.Compare)
	return out
}

const (
	passwordLength     = 12
	longPasswordLength = 32
	letters            = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lettersDigits      = letters + "0123456789"
)

// NewPassword returns the password of a store: 12 characters, the first one a
// letter, the others letters or digits (about 71 bits).
func NewPassword() (string, error) {
	return newPassword(passwordLength)
}

// NewLongPassword returns a password that takes the place of a key: of 32 letters and digits, the first of them a letter.
func NewLongPassword() (string, error) { return newPassword(longPasswordLength) }

func newPassword(length int) (string, error) {
	out := make([]byte, length)
	for i := range out {
		alphabet := lettersDigits
		if i == 0 {
			alphabet = letters
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fmt.Errorf("making a password: %w", err)
		}
		out[i] = alphabet[n.Int64()]
	}
	return string(out), nil
}
