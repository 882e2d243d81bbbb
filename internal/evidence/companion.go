package evidence

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// Companion is a client of the nodes that runs beside them, in any number of pods that
// are all given the same.
type Companion struct {
	// Name is that of its Deployment.
	Name string
	// Restarts is true when its pods load what is published only when they start.
	Restarts bool
	// Published is what its Secret says it is to load; zero when there is none.
	Published publication.Publication
	// Presents is what its Secret gives it to present, the leaf first.
	Presents []*x509.Certificate
	Pods     []Pod
}

// Pod is one process of a companion.
type Pod struct {
	Name string
	// Given are the anchors that its pins and notes say it was given, as of a Node.
	Given map[publication.Domain][]string
	State ProcessState
	// Report counts when State is Running.
	Report publication.Report
	// Since is when the pod began to be as it is.
	Since time.Time
}

// member translates a companion: each of its pods is a role.
func (c *Cluster) member(of *Companion, known keyring, lost map[string]bool) trust.Member {
	m := trust.Member{ID: trust.MemberID(of.Name), Kind: trust.Companion, Restarts: of.Restarts}
	for _, process := range of.processes(c.Agents) {
		v := view{Node: &process, domain: c.Own, own: c.Own, known: known, lost: lost}
		role := v.role(c.Agents)
		role.Name = process.Name
		m.Roles, m.Published = append(m.Roles, role), v.published()
	}
	return m
}

// processes are the pods as nodes whose only role is the agent. A companion without pods is
// one that will load what it finds.
func (c *Companion) processes(agents Role) []Node {
	pods := c.Pods
	if len(pods) == 0 {
		pods = []Pod{{Name: "pods", State: Absent}}
	}
	nodes := make([]Node, 0, len(pods))
	for i := range pods {
		nodes = append(nodes, Node{
			Name: pods[i].Name, Roles: []Role{agents}, Published: c.Published, Presents: c.Presents,
			Given: pods[i].Given, State: pods[i].State, Report: pods[i].Report, Since: pods[i].Since,
		})
	}
	return nodes
}

// processes are those of all nodes and companions.
func (c *Cluster) processes() []Node {
	all := slices.Clone(c.Nodes)
	for i := range c.Companions {
		all = append(all, c.Companions[i].processes(c.Agents)...)
	}
	return all
}
