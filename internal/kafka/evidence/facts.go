package evidence

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/trust"
)

// OperatorMember is the operator among the members of the cluster CA's domain.
const OperatorMember trust.MemberID = "cluster-operator"

// Witness says what is known of the process of a node.
type Witness uint8

// The kinds of witness.
const (
	// Silent: a process may exist, and nobody says what it has loaded.
	Silent Witness = iota
	// NoProcess: there is proven to be none.
	NoProcess
	// Reported: its agent has said what it has loaded.
	Reported
)

// Node is one node of the cluster, present or coming.
type Node struct {
	// Name is that of its pod and of its Secret.
	Name string
	// Controller is true for nodes that listen for Raft clients.
	Controller bool
	// Stores are its TLS listeners.
	Stores []contract.Store
	// Published is what its Secret says it is to load; zero when there is none.
	Published contract.Publication
	// Presents is what its Secret gives it to present, the leaf first.
	Presents []*x509.Certificate
	Witness  Witness
	// Report counts when Witness is Reported.
	Report contract.TLSReport
	// Since is when the node began to be as it is.
	Since time.Time
}

// Cluster is what both domains have in common.
type Cluster struct {
	Now        time.Time
	Nodes      []Node
	Companions []Companion
	// Operator is what the operator presents, the leaf first; empty for nothing.
	Operator []*x509.Certificate
	// Policy is what people asked for. Retirement is each domain's own.
	Policy trust.Policy
}

// Domain is the authority of one domain.
type Domain struct {
	Name      contract.Domain
	Authority authority.Decision
	// Stored are the anchors of its trusted-certs Secret.
	Stored []authority.Anchor
	// ApplicationSince is when what applications read has changed last.
	ApplicationSince time.Time
	Retirement       trust.Retirement
	// Held are CA certificates that processes hold although no Secret may have them
	// any more, see Held.
	Held []*x509.Certificate
}

// Held are the certificates that the reports of the cluster's processes name as
// trusted in the domain.
func Held(c Cluster, name contract.Domain) []*x509.Certificate {
	var held []*x509.Certificate
	nodes := c.processes()
	for i := range nodes {
		for role, loaded := range nodes[i].Report.Roles {
			if nodes[i].domainOf(role) != name {
				continue
			}
			for _, fingerprint := range loaded.Trusts {
				if cert, err := x509.ParseCertificate(nodes[i].Report.Certificates[fingerprint]); err == nil {
					held = append(held, cert)
				}
			}
		}
	}
	return held
}

// domainOf is the authority whose anchors a role trusts.
func (n *Node) domainOf(role contract.Listener) contract.Domain {
	i := slices.IndexFunc(n.Stores, func(s contract.Store) bool { return s.Listener == role })
	if i < 0 {
		return contract.ClusterDomain // the agent, the Raft client
	}
	return n.Stores[i].Trust
}
