package stores

import (
	"crypto/x509"
	"slices"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Facing is what the agent's own server presents, and which clients it accepts.
type Facing struct {
	Revision int64
	Identity Identity
	// Trusts are those anchors named for the agent that are mounted.
	Trusts []*x509.Certificate
	// Operators are fingerprints of leaves that are answered without an anchor.
	Operators []string
}

// Report says what the agent's own server trusts and presents.
func (f Facing) Report() publication.RoleReport {
	return publication.RoleReportOf(f.Identity.Chain, f.Trusts)
}

// Face reads what the agent's own server needs. Unlike a Kafka listener it does not wait
// for every anchor: one that is not mounted verifies no client yet, and clients that the
// others verify are answered.
func Face(m Mounted) (Facing, error) {
	w := &waiting{}
	config := w.config(m)
	published, err := publication.ParsePublication(m.Node[agent.PublicationKey])
	if err != nil {
		w.Add("a readable %s in the node's Secret (%v)", agent.PublicationKey, err)
	}
	if !w.Empty() {
		return Facing{}, w.Err()
	}
	identity := w.identity(m.Node, config.PodName, publication.NodeIdentity, published)
	if !w.Empty() {
		return Facing{}, w.Err()
	}
	trusts, _ := sortedAnchors(Anchors(m.ClusterTrust), published.Trust[publication.AgentRole])
	return Facing{
		Revision:  published.Revision,
		Identity:  identity,
		Trusts:    trusts,
		Operators: slices.Clone(published.Operators),
	}, nil
}
