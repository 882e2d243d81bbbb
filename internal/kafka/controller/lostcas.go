package controller

import (
	"crypto/x509"
	"maps"
	"slices"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// What happens to a CA whose Secrets are lost depends on what was published to nodes and
// what they report. While its Secrets exist, nodes are not queried for it.

// lostTrust reports whether pods run although the Secret with the anchors of an
// authority, or its certificate, is gone.
func (o *observation) lostTrust() bool {
	return len(o.pods) > 0 && slices.ContainsFunc(kinds(), o.lacksTrust)
}

func (o *observation) lacksTrust(kind authorities.Kind) bool {
	return len(authority.StoredAnchors(o.stored(kind.TrustedCertsSecret(o.kafka.Name)))) == 0 ||
		len(o.stored(kind.CertSecret(o.kafka.Name)).Data[authority.CertKey]) == 0
}

// dependence is what depends on an authority, and, when that is lost, what tells of it.
func (c *polled) dependence(kind authorities.Kind) authority.Evidence {
	evidence := c.dependants(kind)
	evidence.Named = c.named(kind)
	if len(c.pods) > 0 && c.lacksTrust(kind) {
		evidence.Reported, evidence.Leaves = c.reported(kind), c.presentedLeaves()
	}
	if kind == authorities.Cluster {
		evidence.Included, evidence.Issued = c.sentAlong(), storedLeaves(c.desired)
	}
	return evidence
}

// sentAlong is what Secrets have nodes present after their leaves, each certificate
// once.
func (c *desired) sentAlong() []*x509.Certificate {
	var sent []*x509.Certificate
	for _, node := range c.allNodes() {
		for _, cert := range afterLeaf(c.presents(node.Pod, node.Pod+".crt")) {
			if !slices.ContainsFunc(sent, cert.Equal) {
				sent = append(sent, cert)
			}
		}
	}
	return sent
}

// named are the anchors of the authority that publications name, and that pods were
// given by their pins and notes, sorted.
func (c *desired) named(kind authorities.Kind) []pki.Fingerprint {
	all := c.everGiven()
	texts := make([]string, 0, len(all))
	for _, given := range all {
		texts = append(texts, given[domainOf(kind)]...)
	}
	named := fingerprints(texts)
	slices.SortFunc(named, pki.Fingerprint.Compare)
	return slices.Compact(named)
}

// fingerprints reads those that can be read.
func fingerprints(texts []string) []pki.Fingerprint {
	read := make([]pki.Fingerprint, 0, len(texts))
	for _, text := range texts {
		if fingerprint, err := pki.ParseFingerprint(text); err == nil {
			read = append(read, fingerprint)
		}
	}
	return read
}

// everGiven is what nodes were given: what is published, and what their pods tell.
func (c *desired) everGiven() []publication.Given {
	given := make([]publication.Given, 0, 2*len(c.cluster.Nodes))
	for _, node := range c.cluster.Nodes {
		stores := c.cluster.Stores(node)
		given = append(given, publication.GivenBy(c.published(node.Pod), stores, contract.ClusterDomain), givenTo(c.pods[node.Pod], stores))
	}
	return given
}

// domainOfRole is the authority whose anchors a role of a node trusts.
func domainOfRole(role publication.Role) publication.Domain {
	if _, ofClients := clientListener(role); ofClients {
		return contract.ClientsDomain
	}
	return contract.ClusterDomain
}

// reported are the CA certificates that nodes have reported last to trust, sorted by fingerprint. Silent nodes count, too: a lost CA
// may be the reason why they cannot be polled.
func (c *polled) reported(kind authorities.Kind) []*x509.Certificate {
	found := map[string]*x509.Certificate{}
	for _, reported := range c.reports {
		for role, loaded := range reported.last.Roles {
			for _, fingerprint := range loaded.Trusts {
				cert, err := pki.CertificateOf(reported.last.Certificates[fingerprint])
				if err == nil && domainOfRole(role) == domainOf(kind) {
					found[pki.FingerprintOf(cert).String()] = cert
				}
			}
		}
	}
	certs := make([]*x509.Certificate, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		certs = append(certs, found[name])
	}
	return certs
}

// presentedLeaves are what nodes present by what they have reported last, or else by their Secrets.
func (c *polled) presentedLeaves() []*x509.Certificate {
	var leaves []*x509.Certificate
	for _, node := range c.cluster.Nodes {
		last := c.reports[node.Pod].last
		shown, _ := presented(last)
		leaf, err := pki.CertificateOf(last.Certificates[shown])
		if err == nil {
			leaves = append(leaves, leaf)
		} else if chain := c.presents(node.Pod, node.Pod+".crt"); len(chain) > 0 {
			leaves = append(leaves, chain[0])
		}
	}
	return leaves
}
