package authority

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Anchor is one CA certificate of the trusted-certs Secret.
type Anchor struct {
	Certificate *x509.Certificate
	State       trust.State
}

// StoredAnchors reads a trusted-certs Secret, sorted by fingerprint. Entries are
// known by their content, not their name. An entry without a valid state counts
// as UNTRUSTED; a damaged certificate is no anchor.
func StoredAnchors(stored Stored) []Anchor {
	var anchors []Anchor
	seen := map[pki.Fingerprint]bool{}
	for _, key := range sortedKeys(stored.Data) {
		name, found := strings.CutSuffix(key, certSuffix)
		if !found {
			continue
		}
		cert, err := pki.ParseCertificate(stored.Data[key])
		if err != nil || seen[pki.FingerprintOf(cert)] {
			continue
		}
		seen[pki.FingerprintOf(cert)] = true
		state := trust.State(bytes.TrimSpace(stored.Data[name+stateSuffix]))
		if use(state) < 0 {
			state = trust.Untrusted
		}
		anchors = append(anchors, Anchor{Certificate: cert, State: state})
	}
	sortAnchors(anchors)
	return anchors
}

func sortAnchors(anchors []Anchor) {
	slices.SortFunc(anchors, func(a, b Anchor) int {
		return pki.FingerprintOf(a.Certificate).Compare(pki.FingerprintOf(b.Certificate))
	})
}

// TrustedCerts renders the trusted-certs Secret. The stored text of a certificate
// that stays is reused, so that an unchanged Secret stays unchanged to the byte.
func TrustedCerts(stored Stored, anchors []Anchor) map[string][]byte {
	data := map[string][]byte{}
	for _, anchor := range anchors {
		name := pki.SHA1Name(anchor.Certificate)
		data[name+certSuffix] = keepText(stored.Data[name+certSuffix], anchor.Certificate)
		data[name+stateSuffix] = []byte(anchor.State)
	}
	return data
}

// keepText returns a stored text while it holds exactly these certificates in
// this order, and renders them again otherwise.
func keepText(stored []byte, certs ...*x509.Certificate) []byte {
	if parsed, err := pki.ParseBundle(stored); err == nil && slices.EqualFunc(parsed, certs, sameCertificate) {
		return stored
	}
	return pki.EncodeBundle(certs...)
}
