package evidence

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// Snapshot is what trust decides from in one domain, of which those CA certificates are
// known.
func Snapshot(c Cluster, d Domain, certs []*x509.Certificate) trust.Snapshot {
	known := newKeyring(certs, d.Authority.Crosses, c.Now)
	s := trust.Snapshot{
		Now: c.Now, Anchors: d.anchors(known, c.processes()), Policy: c.Policy,
		Application: trust.Application{Since: d.ApplicationSince},
	}
	s.Policy.Retirement = d.Retirement
	if d.Name == contract.ClientsDomain {
		s.Policy.Lead = 0 // nobody but the nodes verifies users
	}
	if target := d.Authority.Target(); target != nil {
		s.Issuing = AnchorID(target)
	}
	for _, cert := range d.Authority.Published {
		s.Application.Anchors = append(s.Application.Anchors, AnchorID(cert))
	}
	lost := c.lost(d.Name, known)
	for i := range c.Nodes {
		if m, takesPart := (view{&c.Nodes[i], d.Name, known, lost}).member(); takesPart {
			s.Members = append(s.Members, m)
		}
	}
	if d.Name == contract.ClusterDomain {
		s.Members = append(s.Members, operator(known.identity(c.Operator)))
		for i := range c.Companions {
			s.Members = append(s.Members, c.Companions[i].member(known, lost))
		}
	}
	slices.SortFunc(s.Members, func(a, b trust.Member) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// operator presents what its Secret holds as soon as it is written, and accepts
// every anchor there is.
func operator(identity trust.Identity) trust.Member {
	return trust.Member{
		ID: OperatorMember, Kind: trust.Operator, Published: trust.Publication{Identity: identity},
		Roles: []trust.Role{{
			Name: "client", Plane: trust.Data, Presents: true,
			Evidence: trust.Evidence{Process: trust.ProcessRunning, Loaded: trust.Stores{Identity: identity}},
		}},
	}
}

// view is a node as one domain sees it.
type view struct {
	*Node

	domain publication.Domain
	known  keyring
	// lost are the anchors that nobody has any more.
	lost map[string]bool
}

// member translates the node. The second result is false when it has no role in
// the domain.
func (v view) member() (trust.Member, bool) {
	m := trust.Member{ID: trust.MemberID(v.Name)}
	for _, store := range v.Stores {
		m.Roles = append(m.Roles, v.rolesOf(store)...)
	}
	if v.domain == contract.ClusterDomain {
		m.Roles = append(m.Roles, v.role(publication.Store{
			Role: publication.AgentRole, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain,
		}, trust.Data))
	}
	if len(m.Roles) == 0 {
		return trust.Member{}, false
	}
	m.Published, m.LastsUntil = v.published(), v.lastsUntil()
	return m, true
}

// rolesOf are the peers that live on one store. The store of the control plane is
// also that of the Raft client, on nodes that do not listen there as well.
func (v view) rolesOf(store publication.Store) []trust.Role {
	if store.Role != contract.ControlPlaneListener {
		if store.Trust != v.domain && (v.domain != contract.ClusterDomain || store.Identity != publication.NodeIdentity) {
			return nil
		}
		return []trust.Role{v.role(store, trust.Data)}
	}
	if v.domain != contract.ClusterDomain {
		return nil
	}
	raft := v.role(publication.Store{
		Role: contract.RaftRole, Identity: store.Identity, Trust: store.Trust,
	}, trust.Raft)
	if !v.Controller {
		return []trust.Role{raft}
	}
	return []trust.Role{v.role(store, trust.Control), raft}
}

func (v view) role(store publication.Store, plane trust.Plane) trust.Role {
	r := trust.Role{
		Name: string(store.Role), Plane: plane,
		Verifies: store.Trust == v.domain,
		Presents: v.domain == contract.ClusterDomain && store.Identity == publication.NodeIdentity,
	}
	r.Evidence = v.evidence(store.Role)
	return r
}

// published is what the node's Secret says, without what is lost. A Raft client takes
// what the node is started with.
func (v view) published() trust.Publication {
	p := trust.Publication{}
	for _, store := range v.Stores {
		switch {
		case store.Trust != v.domain:
		case store.Role == contract.ControlPlaneListener:
			p.Control = v.mountable(TrustAtStart(v.Published, store.Role))
		default:
			p.Data = v.mountable(v.Published.Trust[store.Role])
		}
	}
	if v.domain == contract.ClusterDomain {
		p.Data = v.mountable(v.Published.Trust[publication.AgentRole])
		p.Identity = v.known.identity(v.Presents)
	}
	return p
}

// mountable are those of the anchors that are not lost.
func (v view) mountable(fingerprints []string) []trust.AnchorID {
	return anchorIDs(slices.DeleteFunc(slices.Clone(fingerprints), func(f string) bool { return v.lost[f] }))
}

// TrustAtStart is what a publication gives a listener's static store.
func TrustAtStart(p publication.Publication, listener publication.Role) []string {
	if raft, found := p.Trust[contract.RaftRole]; found && listener == contract.ControlPlaneListener {
		return raft
	}
	return p.Trust[listener]
}

// evidence is what the node has proven about one role.
func (v view) evidence(role publication.Role) trust.Evidence {
	e := trust.Evidence{Since: v.Since}
	switch {
	case v.Witness == NoProcess:
		e.Process = trust.ProcessNone
	case v.Witness == Reported && v.Report.Mounted != nil:
		v.testify(&e, role)
	case v.Witness == Reported, v.Witness == Silent:
		// While the mounts are between two states nobody knows what a start would find.
	}
	return e
}

func (v view) testify(e *trust.Evidence, role publication.Role) {
	if v.Report.Mounted.Revision != v.Published.Revision {
		e.Mounted = []trust.Stores{v.named(*v.Report.Mounted, role)}
	}
	e.Loading = v.loading(role)
	loaded, runs := v.Report.Roles[role]
	switch {
	case !runs && v.Report.Revision > 0 && (role == contract.RaftRole || role == contract.ControlPlaneListener):
		return // a server that runs has both; it is not known yet what they hold
	case !runs && slices.Contains(v.Report.Unknown, role):
		return
	case !v.shows(role, loaded):
		return // what it presents is known by name only, and so is who signed it
	case !runs:
		// The server is not started, or was started without this listener.
		e.Process = trust.ProcessNone
		return
	}
	e.Process, e.Loaded = trust.ProcessRunning, v.stores(loaded)
	if loaded.Dynamic {
		// What a start would find under the names that the metadata holds is what
		// is mounted then; the controller listener alone is given something else
		// than what the server starts with.
		e.Persisted = []trust.Stores{e.Loaded}
		e.Static = e.Loaded
	}
	if role == contract.RaftRole {
		e.HeldUntil = v.until(LeafEnd(v.Report, loaded), loaded.Trusts)
	}
}

// shows reports whether the report brings what a role presents. A certificate that a
// listener has of its own need not be there: no authority of the cluster has signed it.
func (n *Node) shows(role publication.Role, loaded publication.RoleReport) bool {
	own := func(s publication.Store) bool { return s.Role == role && s.Identity != publication.NodeIdentity }
	return slices.ContainsFunc(n.Stores, own) || n.carriesAll(loaded.Presents, loaded.Chain)
}

func (v view) stores(r publication.RoleReport) trust.Stores {
	return trust.Stores{Trust: anchorIDs(r.Trusts), Identity: v.known.identity(v.chain(r.Presents, r.Chain))}
}

// loading is what the role may come to hold because its server was told to load it,
// besides what is published. What a process has from its start no reload changes.
func (v view) loading(role publication.Role) []trust.Stores {
	if role == contract.RaftRole || role == publication.AgentRole {
		return nil
	}
	var told []trust.Stores
	for _, p := range v.Report.Loading {
		if p.Revision != v.Published.Revision {
			told = append(told, v.named(p, role))
		}
	}
	return told
}

// named is what a publication that a report names gives to the role.
func (v view) named(p publication.Publication, role publication.Role) trust.Stores {
	trusts := p.Trust[role]
	if role == contract.RaftRole {
		trusts = TrustAtStart(p, contract.ControlPlaneListener)
	}
	return trust.Stores{
		Trust:    anchorIDs(trusts),
		Identity: v.known.identity(v.chain(p.Identities[publication.NodeIdentity], p.Chain)),
	}
}

// chain finds the certificates that a report names. One that it does not carry
// is a stranger's.
func (v view) chain(leaf string, rest []string) []*x509.Certificate {
	chain := make([]*x509.Certificate, 0, len(rest)+1)
	for _, fingerprint := range append([]string{leaf}, rest...) {
		cert, carried := v.carried(fingerprint)
		if !carried {
			cert = &x509.Certificate{Raw: []byte(fingerprint)}
		}
		chain = append(chain, cert)
	}
	return chain
}

// lastsUntil is the end of what the Raft client would have if the node started now.
func (v view) lastsUntil() time.Time {
	if v.domain != contract.ClusterDomain || len(v.Presents) == 0 {
		return time.Time{}
	}
	return v.until(v.Presents[0].NotAfter, TrustAtStart(v.Published, contract.ControlPlaneListener))
}

// LeafEnd is the end of the leaf that a role of the report presents. Cross certificates
// that are sent along may end before: who needed them trusts an authority that ends as
// early.
func LeafEnd(report publication.Report, r publication.RoleReport) time.Time {
	leaf, err := pki.CertificateOf(report.Certificates[r.Presents])
	if err != nil {
		return r.NotAfter
	}
	return leaf.NotAfter
}

// until is the end of a leaf, or of the last anchor by which its holder verifies
// others, if that is earlier.
func (v view) until(leaf time.Time, trusts []string) time.Time {
	var last time.Time
	for _, cert := range v.known.certs {
		if slices.Contains(trusts, string(AnchorID(cert))) && cert.NotAfter.After(last) {
			last = cert.NotAfter
		}
	}
	if !last.IsZero() && (leaf.IsZero() || last.Before(leaf)) {
		return last
	}
	return leaf
}

func anchorIDs(fingerprints []string) []trust.AnchorID {
	ids := make([]trust.AnchorID, 0, len(fingerprints))
	for _, f := range fingerprints {
		ids = append(ids, trust.AnchorID(f))
	}
	slices.Sort(ids)
	return ids
}
