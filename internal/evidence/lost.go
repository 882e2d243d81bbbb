package evidence

import (
	"slices"

	"github.com/keyturn/keyturn/internal/publication"
)

// lost are the anchors of a domain that were given to a process and are stored nowhere. Every process has
// reported, none names them, and no Secret has them. So a publication that names one can never be mounted.
// While a process is silent nothing is lost.
func (c *Cluster) lost(domain publication.Domain, known keyring) map[string]bool {
	processes := c.processes()
	if slices.ContainsFunc(processes, func(n Node) bool { return n.State == Unknown }) {
		return nil
	}
	missing := c.provenance(domain)
	for _, cert := range known.certs {
		delete(missing, string(AnchorID(cert)))
	}
	for i := range processes {
		for _, fingerprint := range processes[i].names() {
			delete(missing, fingerprint)
		}
	}
	return missing
}

// names are the anchors that a process says to trust, to have mounted, or to be loading,
// whether it brings their certificates or not.
func (n *Node) names() []string {
	if n.State != Running {
		return nil
	}
	var all []string
	for _, loaded := range n.Report.Roles {
		all = append(all, loaded.Trusts...)
	}
	publications := slices.Clone(n.Report.Loading)
	if n.Report.Mounted != nil {
		publications = append(publications, *n.Report.Mounted)
	}
	for _, p := range publications {
		for _, trusts := range p.Trust {
			all = append(all, trusts...)
		}
	}
	return all
}
