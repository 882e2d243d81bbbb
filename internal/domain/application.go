package domain

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Annotations of the trusted-certs Secret that remember when what applications read has
// changed last: the anchors' SHA-1 names in their order, and the time.
const (
	ApplicationAnnotation      = "keyturn.dev/application"
	ApplicationSinceAnnotation = "keyturn.dev/application-since"
)

const (
	namesSeparator = ","
	// clockError is how far a clock may be wrong unnoticed.
	clockError = time.Hour
)

// applicationSince is when an anchor last entered what applications read, or its first entry changed: now, unless the Secret
// remembers these very certificates, or more of them. A time that has not come yet is remembered by nothing, unless a clock
// was set right where there was no choice of what to read. While the CA is held nothing has changed.
func (d *Decided) applicationSince(published []*x509.Certificate) time.Time {
	annotations, now := d.seen.CA.TrustedCerts.Annotations, d.seen.CA.Now
	since, err := time.Parse(time.RFC3339, annotations[ApplicationSinceAnnotation])
	remembered := strings.Split(annotations[ApplicationAnnotation], namesSeparator)
	isToCome := since.After(now) && len(published) > 1 || since.After(now.Add(clockError))
	switch {
	case d.Held:
		return since
	case err != nil || isToCome || !isSameOrLess(namesOf(published), remembered):
		return now
	default:
		return since
	}
}

func isSameOrLess(names, remembered []string) bool {
	if len(names) == 0 || names[0] != remembered[0] {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(remembered, name) })
}

func namesOf(certificates []*x509.Certificate) []string {
	names := make([]string, 0, len(certificates))
	for _, certificate := range certificates {
		names = append(names, pki.SHA1Name(certificate))
	}
	return names
}
