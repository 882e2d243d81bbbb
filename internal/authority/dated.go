package authority

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// datedLayout is the end of a retired certificate in its name: RFC 3339 in UTC
// with dashes, since colons are not allowed in keys of Secrets.
const datedLayout = "2006-01-02T15-04-05Z"

// DatedCertKey names the entry under which a retired CA certificate is kept: by
// its end of validity.
func DatedCertKey(cert *x509.Certificate) string {
	return datedPrefix + cert.NotAfter.UTC().Format(datedLayout) + certSuffix
}

// DatedKeyKey names the entry under which the key of a retired CA certificate is
// kept.
func DatedKeyKey(cert *x509.Certificate) string {
	return datedPrefix + cert.NotAfter.UTC().Format(datedLayout) + keySuffix
}

// IsDatedCertKey tells whether a key of a certificate Secret has the form of
// DatedCertKey.
func IsDatedCertKey(key string) bool {
	_, dated := datedEnd(key, certSuffix)
	return dated
}

// datedEnd reads the end of validity in a dated name, and tells whether it is one.
func datedEnd(key, suffix string) (time.Time, bool) {
	date, hasPrefix := strings.CutPrefix(key, datedPrefix)
	date, hasSuffix := strings.CutSuffix(date, suffix)
	end, err := time.Parse(datedLayout, date)
	return end, hasPrefix && hasSuffix && err == nil
}

// datedIn returns the readable certificates under dated names.
func datedIn(data map[string][]byte) map[string]*x509.Certificate {
	found := map[string]*x509.Certificate{}
	for key, value := range data {
		if !IsDatedCertKey(key) {
			continue
		}
		if cert, err := pki.FirstCertificate(value); err == nil {
			found[key] = cert
		}
	}
	return found
}

// retiredKey is a private key under a dated name in the key Secret.
type retiredKey struct {
	// name is that of the key's entry, end the time in it.
	name string
	end  time.Time
	text []byte
	// key is zero when the text cannot be read. It stays nevertheless: whatever it
	// is, it is not ours to throw away before its time.
	key pki.PrivateKey
	// filed are the certificates of the key, kept beside it. An authority that was
	// never present has none.
	filed []*x509.Certificate
}

// certName is the name of the entry with the certificates.
func (r retiredKey) certName() string { return strings.TrimSuffix(r.name, keySuffix) + certSuffix }

// retiredIn returns the keys under dated names, sorted by name.
func retiredIn(data map[string][]byte) []retiredKey {
	var found []retiredKey
	for _, name := range sortedKeys(data) {
		end, dated := datedEnd(name, keySuffix)
		if !dated {
			continue
		}
		retired := retiredKey{name: name, end: end, text: data[name]}
		if key, err := pki.ParsePrivateKey(data[name]); err == nil {
			retired.key = key
		}
		if certs, err := pki.ParseBundle(data[retired.certName()]); err == nil {
			retired.filed = ofKey(certs, retired.key.ID())
		}
		found = append(found, retired)
	}
	return found
}

// retire files an authority that was present, with every unexpired certificate
// that is known of its key: they say whose trust it still has, and whether it may
// sign its successors.
func retire(ca pki.Authority, text []byte, known []*x509.Certificate, now time.Time) retiredKey {
	retired := retiredKey{
		name: DatedKeyKey(ca.Certificate()), end: ca.Certificate().NotAfter, text: text, key: ca.Key(),
		filed: []*x509.Certificate{ca.Certificate()},
	}
	for _, cert := range ofKey(known, ca.Key().ID()) {
		if now.Before(cert.NotAfter) && !contains(retired.filed, cert) {
			retired.filed = append(retired.filed, cert)
		}
	}
	return retired
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
