package evidence

import (
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// provenance are the fingerprints of the anchors that the operator has given to
// processes of a domain, as publications in Secrets, and the pins and notes on pods,
// tell. An authority enters a domain from its own Secrets and from these. What agents
// report confirms them and brings their bytes; it never adds to them.
func (c *Cluster) provenance(domain publication.Domain) map[string]bool {
	given := map[string]bool{}
	nodes := c.processes()
	for i := range nodes {
		n := &nodes[i]
		for role, fingerprints := range n.Published.Trust {
			if n.domainOf(role, c.Own) == domain {
				note(given, fingerprints)
			}
		}
		note(given, n.Given[domain])
	}
	return given
}

func note(given map[string]bool, fingerprints []string) {
	for _, fingerprint := range fingerprints {
		given[fingerprint] = true
	}
}

// held are the CA certificates that processes trust although no Secret may have them
// any more: those that the operator is known to have given them, as reports bring them.
func (c *Cluster) held(domain publication.Domain, given map[string]bool) []*x509.Certificate {
	var held []*x509.Certificate
	nodes := c.processes()
	for i := range nodes {
		for role, loaded := range nodes[i].Report.Roles {
			if nodes[i].domainOf(role, c.Own) != domain {
				continue
			}
			for _, fingerprint := range loaded.Trusts {
				cert, carried := nodes[i].carried(fingerprint)
				if given[fingerprint] && carried && pki.CheckCA(cert) == nil {
					held = append(held, cert)
				}
			}
		}
	}
	return held
}

// carried is a certificate that the node's report brings. Its name is not believed.
func (n *Node) carried(fingerprint string) (*x509.Certificate, bool) {
	cert, err := pki.CertificateOf(n.Report.Certificates[fingerprint])
	if err != nil || pki.FingerprintOf(cert).String() != fingerprint {
		return nil, false
	}
	return cert, true
}

// carriesAll reports whether the report brings all certificates that it says are
// presented.
func (n *Node) carriesAll(leaf string, chain []string) bool {
	return !slices.ContainsFunc(append([]string{leaf}, chain...), func(fingerprint string) bool {
		_, carried := n.carried(fingerprint)
		return fingerprint != "" && !carried
	})
}

// domainOf is the authority whose anchors a role trusts.
func (n *Node) domainOf(role publication.Role, own publication.Domain) publication.Domain {
	i := slices.IndexFunc(n.Roles, func(r Role) bool { return r.Role == role })
	if i < 0 {
		return own
	}
	return n.Roles[i].Trust
}
