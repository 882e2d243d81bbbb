package publication

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Content is what a node is to load, before it has a revision.
type Content struct {
	// Stores are the TLS listeners of the node.
	Stores []contract.Store
	// Leaves maps the identities that the stores name to their certificates.
	Leaves map[string]*x509.Certificate
	// Cluster and Clients are the anchors of the two authorities, of each key the
	// newest certificate only: it verifies what the ones before it did.
	Cluster, Clients []*x509.Certificate
	// Configuration is the hash of the node's ConfigMap.
	Configuration string
	// Operators are the operator's own leaves, see contract.Publication.
	Operators []*x509.Certificate
}

// Next returns the publication of the content. It is the previous one when that
// says the same; otherwise its revision is one more than the previous revision
// and than every revision that a pod is known to have been pinned to, so that a
// lost Secret never makes revisions go backwards.
func Next(previous contract.Publication, pinned int64, content Content, now time.Time) contract.Publication {
	next := contract.Publication{
		Revision:      max(previous.Revision, pinned) + 1,
		Identities:    identities(content),
		Trust:         trust(content),
		Operators:     fingerprints(content.Operators),
		Configuration: content.Configuration,
		PublishedAt:   now.UTC().Truncate(time.Second),
	}
	if previous.Revision >= max(pinned, 1) && previous.SameContent(next) {
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

func trust(content Content) map[contract.Listener][]string {
	cluster := fingerprints(content.Cluster)
	clients := fingerprints(content.Clients)
	roles := map[contract.Listener][]string{contract.AgentRole: cluster}
	for _, store := range content.Stores {
		roles[store.Listener] = cluster
		if store.Trust == contract.ClientsDomain {
			roles[store.Listener] = clients
		}
	}
	return roles
}

func fingerprints(certs []*x509.Certificate) []string {
	named := make([]string, 0, len(certs))
	for _, cert := range certs {
		named = append(named, pki.FingerprintOf(cert).String())
	}
	slices.Sort(named)
	return slices.Compact(named)
}
