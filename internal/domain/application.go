package domain

import (
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
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

// ApplicationSince is when an anchor last entered what applications read, or its first entry changed: now, unless the
// trusted-certs Secret remembers these very certificates, or more of them. A time that has not come yet is remembered by
// nothing, unless a clock was set right where there was no choice of what to read.
func ApplicationSince(stored authority.Stored, published []*x509.Certificate, now time.Time) time.Time {
	since, err := time.Parse(time.RFC3339, stored.Annotations[ApplicationSinceAnnotation])
	remembered := strings.Split(stored.Annotations[ApplicationAnnotation], namesSeparator)
	isToCome := since.After(now) && len(published) > 1 || since.After(now.Add(clockError))
	if err != nil || isToCome || !isSameOrLess(namesOf(published), remembered) {
		return now
	}
	return since
}

// RememberedSince is the time that the Secret remembers, whatever applications read now; zero when it remembers none. While a
// CA is held nothing has changed.
func RememberedSince(stored authority.Stored) time.Time {
	since, _ := time.Parse(time.RFC3339, stored.Annotations[ApplicationSinceAnnotation]) // zero with an error
	return since
}

// ApplicationAnnotations are those of the Secret that remember what applications read from now on.
func ApplicationAnnotations(stored authority.Stored, application []*x509.Certificate, now time.Time) map[string]string {
	return map[string]string{
		ApplicationAnnotation:      strings.Join(namesOf(application), namesSeparator),
		ApplicationSinceAnnotation: ApplicationSince(stored, application, now).UTC().Format(time.RFC3339),
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
