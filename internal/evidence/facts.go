package evidence

import (
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// OperatorMember is the operator among the members of the cluster CA's domain.
const OperatorMember trust.MemberID = "cluster-operator"

// ProcessState says what is known of the process of a node.
type ProcessState uint8

// The states of a process.
const (
	// Unknown: a process may exist, and it is unknown what it has loaded.
	Unknown ProcessState = iota
	// Absent: there is proven to be none.
	Absent
	// Running: its agent has said what it has loaded.
	Running
)

// Node is one node of the cluster, present or coming.
type Node struct {
	// Name is that of its pod and of its Secret.
	Name string
	// Roles are those of its server, and its agent's.
	Roles []Role
	// Published is what its Secret says it is to load; zero when there is none.
	Published publication.Publication
	// Presents is what its Secret gives it to present, the leaf first.
	Presents []*x509.Certificate
	// Given are the anchors that the pins and notes on its pod say it was given at any
	// time, by domain: fingerprints, the SHA-256 of the DER in lower-case hex.
	Given map[publication.Domain][]string
	State ProcessState
	// Leaving is true while the node is being removed: its Secret stays as it is.
	Leaving bool
	// Report counts when State is Running.
	Report publication.Report
	// Since is when the node began to be as it is.
	Since time.Time
}

// Cluster is what both domains have in common.
type Cluster struct {
	Now        time.Time
	Nodes      []Node
	Companions []Companion
	// Own is the domain whose leaves the nodes, their companions and the operator present. Leaves of another
	// are their users'. A role that is not known any more counts to it.
	Own publication.Domain
	// Agents is the role of the agents of companions. The operator is a client of its plane; without a role it is a client of nothing.
	Agents Role
	// Operator is what the operator presents, the leaf first; empty for nothing.
	Operator []*x509.Certificate
	// Policy is what people asked for. Retirement is each domain's own.
	Policy trust.Policy
}

// Domain is the authority of one domain.
type Domain struct {
	Name      publication.Domain
	Authority authority.Decision
	// Stored are the anchors of its trusted-certs Secret.
	Stored []authority.Anchor
	// Distrusted are the fingerprints of CA certificates that a person has distrusted and that everything has ceased to trust. Only the
	// authority's own Secrets bring one back.
	Distrusted map[string]bool
	// ApplicationSince is when what applications read has changed last.
	ApplicationSince time.Time
	Retirement       trust.Retirement
	Holders          []Holder
}

// HolderPlane is where holders take part.
func HolderPlane() trust.Plane { return trust.Plane{Name: "holder"} }

// Holder has a certificate of the domain that no publication gives it, as an application has.
type Holder struct {
	// Name tells it from all other members.
	Name string
	// CA is the fingerprint of the CA certificate that its own is signed by: the SHA-256 of the DER in lower-case hex.
	CA string
	// NotAfter is the end of its certificate, after which it is no member any more.
	NotAfter time.Time
}
