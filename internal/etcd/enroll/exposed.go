package enroll

import (
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// exposedEntry begins the names of entries that are no certificates: of keys whose private keys were seen.
const exposedEntry = "exposed-"

// ExposedIn are the keys whose private keys are in annotations of the enrollment, whatever was to be there.
func ExposedIn(annotations map[string]string) []pki.KeyID {
	keys := slices.Concat(Exposed(annotations[contract.RequestAnnotation]), Exposed(annotations[contract.CertificateAnnotation]))
	for _, plane := range contract.Planes() {
		keys = slices.Concat(keys, Exposed(annotations[plane.RequestAnnotation()]), Exposed(annotations[plane.CertificateAnnotation()]))
	}
	return keys
}

// Exposed are the keys whose private keys are in a value, as they are or in base64. One that is too long is not read.
func Exposed(value string) []pki.KeyID {
	if len(value) > maxRequest {
		return nil
	}
	keys, _ := pki.PrivateKeysIn([]byte(value))
	if data, err := decode(value); err == nil {
		decoded, _ := pki.PrivateKeysIn(data)
		keys = append(keys, decoded...)
	}
	return keys
}

// Expose records that the private keys of keys were seen, and reports whether that is news. Where there is no room, earlier
// ones of the holder with most are dropped.
func (l Ledger) Expose(keys []pki.KeyID, by Owner, now time.Time) bool {
	isNews := false
	for _, key := range keys {
		if !l.IsExposed(key) {
			l[exposedEntry+key.String()] = Issued{PodUID: by.UID, Namespace: by.Namespace, IssuedAt: now.UTC().Truncate(time.Second)}
			isNews = true
		}
	}
	if isNews {
		l.yield(MaxExposed, func(name string, _ Issued) bool { return strings.HasPrefix(name, exposedEntry) })
	}
	return isNews
}

// IsExposed reports whether the private key of a key was seen.
func (l Ledger) IsExposed(key pki.KeyID) bool {
	_, is := l[exposedEntry+key.String()]
	return is
}
