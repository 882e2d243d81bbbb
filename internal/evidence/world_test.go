package evidence_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

func now() time.Time { return time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC) }

const client publication.Role = "tls-9093"

// world is a dual-role node in the middle of a replacement: the old authority
// signs, the new one has been signed by it.
type world struct {
	outgoing, incoming pki.Authority
	cross              *x509.Certificate
	node               evidence.Node
	domain             evidence.Domain
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{outgoing: ca(tb, "v0"), incoming: ca(tb, "v1")}
	cross, err := pki.CrossSign(w.outgoing, w.incoming.Certificate(), now())
	if err != nil {
		tb.Fatal(err)
	}
	w.cross = cross
	w.domain = evidence.Domain{
		Name: contract.ClusterDomain,
		Authority: authority.Decision{
			Authority: w.outgoing, Certificate: w.outgoing.Certificate(),
			Pending:   &authority.Replacement{Incoming: w.incoming, Cross: []*x509.Certificate{cross}},
			Keys:      []pki.Authority{w.outgoing, w.incoming},
			Crosses:   []*x509.Certificate{cross},
			Published: []*x509.Certificate{w.outgoing.Certificate(), w.incoming.Certificate()},
		},
		Stored: []authority.Anchor{{Certificate: w.outgoing.Certificate(), State: trust.InUseAll}},
	}
	w.node = evidence.Node{
		Name: "my-dual-0", Roles: roles.Of(stores(), stores()), State: evidence.Running, Since: now().Add(-time.Hour),
	}
	w.present(leaf(tb, w.outgoing))
	w.publish(3, id(w.outgoing.Certificate()))
	w.load()
	return w
}

// stores are those of a node with a listener for clients.
func stores() []publication.Store {
	return []publication.Store{
		{Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
		{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
		{Role: client, Identity: publication.NodeIdentity, Trust: contract.ClientsDomain},
	}
}

// identify gives the listener for clients a certificate of its own.
func (w *world) identify() {
	own := stores()
	own[2].Identity = string(client)
	w.node.Roles = roles.Of(own, own)
}

func ca(tb testing.TB, name string) pki.Authority {
	tb.Helper()
	authority, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: 24 * time.Hour, Now: now(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return authority
}

func leaf(tb testing.TB, signer pki.Authority) *x509.Certificate {
	tb.Helper()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := signer.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "node"}, Usages: pki.BothUsages(), Validity: time.Hour, Now: now(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

func id(cert *x509.Certificate) string { return string(evidence.AnchorID(cert)) }

// present puts a chain into the node's Secret.
func (w *world) present(chain ...*x509.Certificate) {
	w.node.Presents = chain
	if w.node.Report.Certificates == nil {
		w.node.Report.Certificates = map[string][]byte{}
	}
	for _, cert := range chain {
		w.node.Report.Certificates[id(cert)] = cert.Raw
	}
}

// publish writes a publication that trusts the anchors everywhere.
func (w *world) publish(revision int64, anchors ...string) {
	slices.Sort(anchors)
	p := publication.Publication{
		Revision: revision, Identities: map[string]string{publication.NodeIdentity: id(w.node.Presents[0])},
		Trust: map[publication.Role][]string{publication.AgentRole: anchors, client: {"clients"}},
	}
	for _, cert := range w.node.Presents[1:] {
		p.Chain = append(p.Chain, id(cert))
	}
	for _, listener := range []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener} {
		p.Trust[listener] = anchors
	}
	w.node.Published = p
}

// load lets the server run on what is published.
func (w *world) load() {
	p := w.node.Published
	w.node.Report.Revision, w.node.Report.Mounted = p.Revision, &p
	w.node.Report.Roles = map[publication.Role]publication.RoleReport{}
	for role, anchors := range p.Trust {
		w.node.Report.Roles[role] = publication.RoleReport{
			Trusts: anchors, Presents: p.Identities[publication.NodeIdentity], Chain: p.Chain, NotAfter: now().Add(time.Hour),
		}
	}
	w.node.Report.Roles[contract.RaftRole] = w.node.Report.Roles[contract.ControlPlaneListener]
}

func (w *world) snapshot() trust.Snapshot {
	return w.snapshotOf(evidence.Cluster{Now: now(), Nodes: []evidence.Node{w.node}})
}

func (w *world) snapshotOf(c evidence.Cluster) trust.Snapshot {
	c.Own, c.Agents = contract.ClusterDomain, roles.Agent()
	return evidence.Snapshot(c, w.domain, evidence.Known(c, w.domain))
}

func (w *world) member(t *testing.T) trust.Member {
	t.Helper()
	s := w.snapshot()
	i := slices.IndexFunc(s.Members, func(m trust.Member) bool { return m.ID == "my-dual-0" })
	if i < 0 {
		t.Fatalf("members are %+v, want the node among them", s.Members)
	}
	return s.Members[i]
}

func (w *world) evidence(t *testing.T, role publication.Role) trust.Evidence {
	t.Helper()
	m := w.member(t)
	i := slices.IndexFunc(m.Roles, func(r trust.Role) bool { return r.Name == string(role) })
	if i < 0 {
		t.Fatalf("roles are %+v, want %s among them", m.Roles, role)
	}
	return m.Roles[i].Evidence
}
