package evidence

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// Snapshot is what trust decides from in one domain, of which those CA certificates are
// known.
func Snapshot(c Cluster, d Domain, certs []*x509.Certificate) trust.Snapshot {
	known := newKeyring(certs, d.Authority.Crosses, c.Now)
	known.issuance = c.Policy.Issuance
	s := trust.Snapshot{
		Now: c.Now, Anchors: d.anchors(known, &c), Policy: c.Policy,
		Application: trust.Application{Since: d.ApplicationSince},
	}
	s.Policy.Retirement = d.Retirement
	if d.Name != c.Own {
		s.Policy.Lead = 0 // only the nodes verify users
	}
	if target := d.Authority.Target(); target != nil {
		s.Issuing = AnchorID(target)
	}
	for _, cert := range d.Authority.Published {
		s.Application.Anchors = append(s.Application.Anchors, AnchorID(cert))
	}
	lost := c.lost(d.Name, known)
	for i := range c.Nodes {
		if m, takesPart := (view{&c.Nodes[i], d.Name, c.Own, known, lost}).member(); takesPart {
			s.Members = append(s.Members, m)
		}
	}
	if d.Name == c.Own {
		if c.Agents.Role != "" {
			s.Members = append(s.Members, operator(known.identity(c.Operator), c.Agents.Plane))
		}
		for i := range c.Companions {
			s.Members = append(s.Members, c.member(&c.Companions[i], known, lost))
		}
	}
	for _, h := range d.Holders {
		if !c.Now.After(h.NotAfter) {
			s.Members = append(s.Members, known.holder(h))
		}
	}
	slices.SortFunc(s.Members, func(a, b trust.Member) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// operator presents what its Secret holds as soon as it is written, and accepts
// every anchor there is.
func operator(identity trust.Identity, plane trust.Plane) trust.Member {
	return trust.Member{
		ID: OperatorMember, Kind: trust.Operator, Published: trust.Publication{Identity: identity},
		Roles: []trust.Role{{
			Name: "client", Plane: plane, Presents: true,
			Evidence: trust.Evidence{Process: trust.ProcessRunning, Loaded: trust.Stores{Identity: identity}},
		}},
	}
}

// holder presents what it was given. A CA that is not known any more is trusted by nothing.
func (k keyring) holder(h Holder) trust.Member {
	identity := trust.Identity{Signer: stranger(h.Name)}
	if i := slices.IndexFunc(k.certs, func(ca *x509.Certificate) bool { return string(AnchorID(ca)) == h.CA }); i >= 0 {
		identity.Signer = KeyID(k.certs[i])
	}
	return trust.Member{
		ID: trust.MemberID(h.Name), Kind: trust.Holder, Published: trust.Publication{Identity: identity},
		Roles: []trust.Role{{
			Plane: HolderPlane(), Presents: true, Evidence: trust.Evidence{Process: trust.ProcessRunning, Loaded: trust.Stores{Identity: identity}},
		}},
	}
}

// view is a node as one domain sees it.
type view struct {
	*Node

	domain, own publication.Domain
	known       keyring
	// lost are the anchors that are stored nowhere any more, see Cluster.lost.
	lost map[string]bool
}

// member translates the node. The second result is false when it has no role in
// the domain.
func (v view) member() (trust.Member, bool) {
	m := trust.Member{ID: trust.MemberID(v.Name), Leaving: v.Leaving}
	for _, role := range v.Roles {
		if peer := v.role(role); peer.Verifies || peer.Presents {
			m.Roles = append(m.Roles, peer)
		}
	}
	if len(m.Roles) == 0 {
		return trust.Member{}, false
	}
	m.Published, m.LastsUntil = v.published(), v.lastsUntil()
	return m, true
}

func (v view) role(role Role) trust.Role {
	return trust.Role{
		Name: string(role.Role), Plane: role.Plane,
		Verifies: role.Trust == v.domain,
		Presents: v.domain == v.own && role.Identity == publication.NodeIdentity,
		Evidence: v.evidence(role),
	}
}

// published is what the node's Secret says, without what is lost. Of the roles of a bundle
// that it names the last one speaks for all. The late bundle is what the node is started with.
func (v view) published() trust.Publication {
	p := trust.Publication{}
	for _, role := range v.Roles {
		switch {
		case role.Trust != v.domain || !role.isNamedIn(v.Published):
		case role.Plane.Bundle == trust.Main:
			p.Main = v.mountable(role.named(v.Published))
		default:
			p.Late = v.mountable(role.atStart(v.Published))
		}
	}
	if v.domain == v.own {
		p.Identity = v.known.identity(v.Presents)
	}
	return p
}

// mountable are those of the anchors that are not lost.
func (v view) mountable(fingerprints []string) []trust.AnchorID {
	return anchorIDs(slices.DeleteFunc(slices.Clone(fingerprints), func(f string) bool { return v.lost[f] }))
}

// evidence is what the node has proven about one role.
func (v view) evidence(role Role) trust.Evidence {
	e := trust.Evidence{Since: v.Since}
	switch {
	case v.State == Absent:
		e.Process = trust.ProcessNone
	case v.State == Running && v.Report.Mounted != nil:
		v.testify(&e, role)
	case v.State == Running, v.State == Unknown:
		// While the mounts are between two states it is unknown what a start would find.
	}
	return e
}

func (v view) testify(e *trust.Evidence, role Role) {
	if v.Report.Mounted.Revision != v.Published.Revision {
		e.Mounted = []trust.Stores{v.named(*v.Report.Mounted, role)}
	}
	e.Loading = v.loading(role)
	loaded, runs := v.Report.Roles[role.Role]
	switch {
	case !runs && v.Report.Revision > 0 && role.Always:
		return // it is not known yet what it holds
	case !runs && slices.Contains(v.Report.Unknown, role.Role):
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
		// is mounted then; listeners of the control plane alone may be given something
		// else than what the server starts with.
		e.Persisted = []trust.Stores{e.Loaded}
		e.Static = e.Loaded
	}
	e.HeldUntil = v.heldUntil(role.Plane, loaded)
}

// heldUntil is the end of what a role of the plane has loaded at its start and keeps; zero where it keeps nothing.
func (v view) heldUntil(plane trust.Plane, loaded publication.RoleReport) time.Time {
	if plane.Reloads() {
		return time.Time{}
	}
	end := LeafEnd(v.Report, loaded)
	for _, ca := range v.known.needed(v.chain(loaded.Presents, loaded.Chain))[1:] {
		if ca.NotAfter.Before(end) {
			end = ca.NotAfter
		}
	}
	return v.keptUntil(plane, end, loaded.Trusts)
}

// keptUntil is the end of what a role of the plane keeps from its start, of a leaf and of what it trusts.
func (v view) keptUntil(plane trust.Plane, leaf time.Time, trusts []string) time.Time {
	if plane.Identity == trust.Reloading {
		leaf = time.Time{}
	}
	if plane.Trust == trust.Reloading {
		return leaf
	}
	return v.until(leaf, trusts)
}

// shows reports whether the report brings what a role presents. A certificate that a
// listener has of its own need not be there: no authority of the cluster has signed it.
func (n *Node) shows(role Role, loaded publication.RoleReport) bool {
	return role.Identity != publication.NodeIdentity || n.carriesAll(loaded.Presents, loaded.Chain)
}

func (v view) stores(r publication.RoleReport) trust.Stores {
	return trust.Stores{Trust: anchorIDs(r.Trusts), Identity: v.known.identity(v.chain(r.Presents, r.Chain))}
}

// loading is what the role may come to hold because its server was told to load it,
// besides what is published. What a process has from its start no reload changes.
func (v view) loading(role Role) []trust.Stores {
	if role.Loads == WhenMounted || role.Plane.Trust == trust.AtStart {
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
func (v view) named(p publication.Publication, role Role) trust.Stores {
	return trust.Stores{Trust: anchorIDs(role.named(p)), Identity: v.identityIn(p)}
}

// identityIn is what a publication that a report names has its reader present. One whose key is its own is given its
// certificates apart from that.
func (v view) identityIn(p publication.Publication) trust.Identity {
	leaf, isNamed := p.Identities[publication.NodeIdentity]
	if !isNamed {
		return v.known.identity(v.Presents)
	}
	return v.known.identity(v.chain(leaf, p.Chain))
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

// lastsUntil is the end of what the node would hold of the domain until its next start if it started now.
func (v view) lastsUntil() time.Time {
	i := slices.IndexFunc(v.Roles, func(r Role) bool {
		return !r.Plane.Reloads() && (r.Trust == v.domain || r.Identity == publication.NodeIdentity)
	})
	if v.domain != v.own || i < 0 {
		return time.Time{}
	}
	role, leaf := v.Roles[i], time.Time{}
	if role.Plane.Identity == trust.AtStart {
		if len(v.Presents) == 0 {
			return time.Time{}
		}
		leaf = pki.EarliestEnd(v.known.needed(v.Presents))
	}
	return v.keptUntil(role.Plane, leaf, role.atStart(v.Published))
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
