package enroll

import (
	"cmp"
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
	names := []string{contract.RequestAnnotation, contract.CertificateAnnotation}
	for _, plane := range contract.Planes() {
		names = append(names, plane.RequestAnnotation(), plane.CertificateAnnotation())
	}
	var keys []pki.KeyID
	for _, name := range names {
		keys = append(keys, Exposed(annotations[name])...)
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

// yield drops entries of one kind until there are no more than so many. The first one goes of the holder with most, in the
// namespace with most: no holder and no namespace can have those of others dropped.
func (l Ledger) yield(most int, isOfKind func(name string, entry Issued) bool) {
	var names []string
	holders, namespaces := map[string]int{}, map[string]int{}
	for name, entry := range l {
		if isOfKind(name, entry) {
			names = append(names, name)
			holders[entry.PodUID]++
			namespaces[entry.Namespace]++
		}
	}
	for len(names) > most {
		last := slices.MaxFunc(names, func(a, b string) int {
			first, second := l[a], l[b]
			return cmp.Or(
				cmp.Compare(namespaces[first.Namespace], namespaces[second.Namespace]), cmp.Compare(holders[first.PodUID], holders[second.PodUID]),
				second.NotAfter.Compare(first.NotAfter), second.IssuedAt.Compare(first.IssuedAt), strings.Compare(b, a),
			)
		})
		holders[l[last].PodUID]--
		namespaces[l[last].Namespace]--
		delete(l, last)
		names = slices.DeleteFunc(names, func(name string) bool { return name == last })
	}
}
