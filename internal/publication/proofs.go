package publication

import (
	"cmp"
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// Listening is what the listeners of a node may have loaded.
type Listening struct {
	// Stores are the listeners.
	Stores []Store
	// Trust is what they are given now, Previous what was published before.
	Trust    map[Role][]string
	Previous Publication
	// Report is what the node says; zero when it says nothing.
	Report Report
	// Settled is true when no process of the node may have loaded anything else.
	Settled bool
}

// InDoubt are, of the anchors of a domain, those that a node needs leaves of, to prove
// what its listeners trust: what they may have loaded holds anchors of one subject
// and different keys. Until it has settled, those stay of which it has leaves. Of
// several with one key the first stands for all; they are sorted by key.
func InDoubt(domain Domain, anchors []*x509.Certificate, l Listening) []*x509.Certificate {
	loadable := l.loadable(domain)
	named := slices.DeleteFunc(slices.Clone(anchors), func(a *x509.Certificate) bool {
		return !slices.Contains(loadable, pki.FingerprintOf(a).String())
	})
	var list []*x509.Certificate
	for _, anchor := range anchors {
		doubtful := slices.Contains(named, anchor) &&
			slices.ContainsFunc(named, func(other *x509.Certificate) bool { return pki.Namesakes(anchor, other) })
		_, has := l.Previous.Proofs[pki.KeyIDOf(anchor).String()]
		known := slices.ContainsFunc(list, func(other *x509.Certificate) bool { return pki.KeyIDOf(anchor) == pki.KeyIDOf(other) })
		if (doubtful || has && !l.Settled) && !known {
			list = append(list, anchor)
		}
	}
	slices.SortFunc(list, func(a, b *x509.Certificate) int {
		return cmp.Compare(pki.KeyIDOf(a).String(), pki.KeyIDOf(b).String())
	})
	return list
}

// loadable are the fingerprints of the anchors that listeners of the domain may have
// loaded.
func (l Listening) loadable(domain Domain) []string {
	var list []string
	for _, store := range l.Stores {
		if store.Trust != domain {
			continue
		}
		list = slices.Concat(list, l.Trust[store.Role], l.Previous.Trust[store.Role], l.Report.Roles[store.Role].Trusts)
		for _, told := range l.Report.Loading {
			list = append(list, told.Trust[store.Role]...)
		}
	}
	return list
}
