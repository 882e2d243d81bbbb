package publication

import (
	"crypto/x509"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Content is what a node is to load, before it has a revision.
type Content struct {
	// Leaves maps the identities that the stores name to their certificates.
	Leaves map[string]*x509.Certificate
	// Chain is what the node presents after its own leaf.
	Chain []*x509.Certificate
	// Trust is what each role trusts, see Trust.
	Trust map[Role][]string
	// Loading is how the node gets it.
	Loading Loading
	// Configuration is the hash of the node's ConfigMap.
	Configuration string
	// Operators are the operator's own leaves, see Publication.
	Operators []*x509.Certificate
	// Proofs maps keys of anchors to leaves of theirs, see Publication.
	Proofs map[pki.KeyID]*x509.Certificate
}

// maxTold is the highest revision that is believed of recipients. From there Next can still count as many
// more.
const maxTold = MaxRevision / 2

// Next returns the publication of the content: the previous one when that says the same, otherwise one
// with a higher revision. told is the newest revision that a process is known to have. With it a lost or
// restored Secret never makes revisions go backwards; values that counting cannot reach are ignored.
func Next(previous Publication, told int64, content Content, now time.Time) Publication {
	if told > maxTold {
		told = 0
	}
	if previous.Revision > MaxRevision {
		previous = Publication{}
	}
	next := Publication{
		Revision:      max(previous.Revision, told) + 1,
		Identities:    identities(content),
		Chain:         inOrder(content.Chain),
		Trust:         content.Trust,
		Loading:       content.Loading,
		Operators:     fingerprints(content.Operators),
		Proofs:        proofs(content),
		Configuration: content.Configuration,
		PublishedAt:   now.UTC().Truncate(time.Second),
	}
	if previous.Revision >= max(told, 1) && previous.SameContent(next) && maps.Equal(previous.Proofs, next.Proofs) {
		return previous
	}
	return next
}

func identities(content Content) map[string]string {
	named := map[string]string{}
	for identity, leaf := range content.Leaves {
		named[identity] = pki.FingerprintOf(leaf).String()
	}
	return named
}

func proofs(content Content) map[string]string {
	if len(content.Proofs) == 0 {
		return nil
	}
	named := map[string]string{}
	for key, leaf := range content.Proofs {
		named[key.String()] = pki.FingerprintOf(leaf).String()
	}
	return named
}

func inOrder(certs []*x509.Certificate) []string {
	if len(certs) == 0 {
		return nil
	}
	named := make([]string, 0, len(certs))
	for _, cert := range certs {
		named = append(named, pki.FingerprintOf(cert).String())
	}
	return named
}

func fingerprints(certs []*x509.Certificate) []string {
	named := append([]string{}, inOrder(certs)...)
	slices.Sort(named)
	return slices.Compact(named)
}
