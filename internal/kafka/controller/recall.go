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

// What becomes of an authority whose Secrets are lost depends on what nodes were told
// and say to hold. While its Secrets are there, nobody is asked.

// lostTrust reports whether pods run although the Secret with the anchors of an
// authority, or its certificate, is gone.
func (p *pass) lostTrust() bool {
	return len(p.pods) > 0 && slices.ContainsFunc(kinds(), p.lacksTrust)
}

func (p *pass) lacksTrust(kind authorities.Kind) bool {
	return len(authority.StoredAnchors(p.stored(kind.TrustedCertsSecret(p.kafka.Name)))) == 0 ||
		len(p.stored(kind.CertSecret(p.kafka.Name)).Data[authority.CertKey]) == 0
}

// dependence is what depends on an authority, and, when that is lost, what tells of it.
func (p *pass) dependence(kind authorities.Kind) authority.Evidence {
	evidence := p.dependants(kind)
	evidence.Named = p.named(kind)
	if len(p.pods) > 0 && p.lacksTrust(kind) {
		evidence.Reported, evidence.Leaves = p.reported(kind), p.presentedLeaves()
	}
	if kind == authorities.Cluster {
		evidence.Vouching, evidence.Issued = p.sentAlong(), storedLeaves(p)
	}
	return evidence
}

// sentAlong is what Secrets have nodes present after their leaves, each certificate
// once.
func (p *pass) sentAlong() []*x509.Certificate {
	var sent []*x509.Certificate
	for _, node := range p.allNodes() {
		for _, cert := range afterLeaf(p.presents(node.Pod, node.Pod+".crt")) {
			if !slices.ContainsFunc(sent, cert.Equal) {
				sent = append(sent, cert)
			}
		}
	}
	return sent
}

// named are the anchors of the authority that publications name, and that pods were
// given by their pins and notes, sorted.
func (p *pass) named(kind authorities.Kind) []pki.Fingerprint {
	all := p.everGiven()
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
func (p *pass) everGiven() []publication.Given {
	given := make([]publication.Given, 0, 2*len(p.cluster.Nodes))
	for _, node := range p.cluster.Nodes {
		stores := p.cluster.Stores(node)
		given = append(given, publication.GivenBy(p.published(node.Pod), stores, contract.ClusterDomain), givenTo(p.pods[node.Pod], stores))
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

// reported are the CA certificates that nodes say to trust, sorted by fingerprint.
func (p *pass) reported(kind authorities.Kind) []*x509.Certificate {
	found := map[string]*x509.Certificate{}
	for _, said := range p.heard {
		for role, loaded := range said.report.Roles {
			for _, fingerprint := range loaded.Trusts {
				cert, err := pki.CertificateOf(said.report.Certificates[fingerprint])
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

// presentedLeaves are what nodes present by what they say, or else by their Secrets.
func (p *pass) presentedLeaves() []*x509.Certificate {
	var leaves []*x509.Certificate
	for _, node := range p.cluster.Nodes {
		said := p.heard[node.Pod]
		shown, _ := presented(said)
		leaf, err := pki.CertificateOf(said.report.Certificates[shown])
		if err == nil {
			leaves = append(leaves, leaf)
		} else if chain := p.presents(node.Pod, node.Pod+".crt"); len(chain) > 0 {
			leaves = append(leaves, chain[0])
		}
	}
	return leaves
}
