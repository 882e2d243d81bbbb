package domains

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Seen is what is known of the CAs of a cluster and of all who trust them, at one moment.
type Seen struct {
	Cluster model.Cluster
	// Secrets are those of the CA of each plane.
	Secrets map[contract.Plane]Secrets
	Members []Member
	// Operator is what the operator presents to members, the leaf first; empty before it has a certificate.
	Operator []*x509.Certificate
	// Ledger has the certificates that were issued, and Clients what applications and backups are called in it, by their UIDs.
	Ledger  enroll.Ledger
	Clients map[string]string
	// Before are the records of the decisions before, by what CAs are called in them, and Made is since when pods of members are
	// known as they are.
	Before map[string]rotation.Record
	Made   map[trust.MemberID]time.Time
	Now    time.Time
}

// Secrets are those of a CA.
type Secrets struct {
	Key, Cert, Trusted authority.Stored
	// Versions are their resource versions, by "Secret" and their names.
	Versions map[string]string
}

// Member is a member of the cluster, or one to come.
type Member struct {
	Name string
	// Published is what its Secret says, and Given the CAs that its pod was given at any time.
	Published publication.Publication
	Given     publication.Given
	// Chains are what it was issued last, by plane, each leaf first.
	Chains map[contract.Plane][]*x509.Certificate
	// State says what is known of its etcd, Report is the latest report of its agent if there is one, and Since when that
	// became so.
	State     evidence.ProcessState
	Report    publication.Report
	Since     time.Time
	IsLeaving bool
}

// Making is what the CA of a plane is made with, before anything is demanded.
func (s *Seen) Making(plane contract.Plane) *authority.Making {
	return &authority.Making{Signing: authority.BelowParent, PermittedDNS: s.Cluster.Domains(plane)}
}

// Decide decides about a plane. Without anything to make a CA with, none is made.
func (s *Seen) Decide(plane contract.Plane, making *authority.Making) (*domain.Decided, error) {
	kind := domain.Kind{Name: Of(plane), Own: Of(plane), Retirement: trust.RetireUnused}
	decided, err := kind.Decide(&domain.Seen{
		CA: s.input(plane, making), Members: s.cluster(plane), Holders: s.holders(plane), Before: s.Before[Recorded(plane)], Made: s.Made,
	})
	if err != nil {
		return nil, fmt.Errorf("the %s plane: %w", plane, err)
	}
	return decided, nil
}

func (s *Seen) input(plane contract.Plane, making *authority.Making) authority.Input {
	secrets := s.Secrets[plane]
	return authority.Input{
		Names: Names(s.Cluster, plane), Spec: spec(s.Cluster, plane),
		KeySecret: secrets.Key, CertSecret: secrets.Cert, TrustedCerts: secrets.Trusted,
		Making: making, Stores: authority.WithoutStores, Window: authority.Window{Open: true}, Evidence: s.dependence(plane),
		Paused: making == nil, Now: s.Now,
	}
}

// dependence is what depends on the CA of a plane.
func (s *Seen) dependence(plane contract.Plane) authority.Evidence {
	found, named := authority.Evidence{}, map[string]bool{}
	for i := range s.Members {
		member := &s.Members[i]
		if chain := member.Chains[plane]; len(chain) > 0 {
			found.Issued, found.Leaves = append(found.Issued, chain[0]), append(found.Leaves, chain[0])
		}
		given := slices.Concat(member.Given[Of(plane)], member.Published.Trust[plane.Role()])
		if len(given) > 0 || len(member.Chains[plane]) > 0 {
			found.Dependants = append(found.Dependants, member.Name)
		}
		for _, fingerprint := range given {
			named[fingerprint] = true
		}
	}
	if plane == contract.ClientPlane && len(s.Operator) > 0 {
		found.Issued = append(found.Issued, s.Operator[0])
	}
	found.Named = model.Fingerprints(slices.Sorted(maps.Keys(named)))
	return found
}

// cluster are all who may trust the CA of a plane.
func (s *Seen) cluster(plane contract.Plane) evidence.Cluster {
	of := evidence.Cluster{Policy: trust.Policy{RestartMargin: RestartMargin(s.Cluster.TLS.CAValidity[plane])}}
	for i := range s.Members {
		of.Nodes = append(of.Nodes, s.Members[i].node(plane))
	}
	if plane == contract.ClientPlane {
		of.Agents, of.Operator = agentRole(plane), s.Operator
	}
	return of
}

// node is a member as a plane sees it.
func (m *Member) node(own contract.Plane) evidence.Node {
	node := evidence.Node{
		Name: m.Name, Published: toAgent(m.Published), Presents: m.Chains[own], Given: m.Given,
		State: m.State, Report: m.Report, Since: m.since(), Leaving: m.IsLeaving,
	}
	for _, plane := range contract.Planes() {
		node.Roles = append(node.Roles, roleOf(plane, own))
	}
	node.Roles = append(node.Roles, agentRole(own))
	if m.Report.Mounted != nil {
		mounted := toAgent(*m.Report.Mounted)
		node.Report.Mounted = &mounted
	}
	return node
}

// since is since when a member is as it is in the face of what is published to it: an answer is no delay before that.
func (m *Member) since() time.Time {
	at := m.Published.PublishedAt
	isMounted := m.Report.Mounted != nil && m.Report.Mounted.Revision == m.Published.Revision
	if m.State == evidence.Running && (!isMounted || at.After(m.Since)) && !at.IsZero() {
		return at
	}
	return m.Since
}

// toAgent is a publication that names what it gives to the agent: the CAs of the client plane, as soon as they are mounted.
func toAgent(p publication.Publication) publication.Publication {
	named, isNamed := p.Trust[contract.ClientPlane.Role()]
	if isNamed {
		p.Trust = maps.Clone(p.Trust)
		p.Trust[publication.AgentRole] = named
	}
	return p
}

// roleOf is the role of etcd in a plane.
func roleOf(plane, own contract.Plane) evidence.Role {
	return evidence.Role{
		Store: publication.Store{Role: plane.Role(), Identity: identityOf(plane, own), Trust: Of(plane)}, Always: true,
		Plane: trustPlane(plane),
	}
}

// agentRole is the role of the agent, which presents the certificate of etcd to the operator.
func agentRole(own contract.Plane) evidence.Role {
	return evidence.Role{
		Store: publication.Store{Role: publication.AgentRole, Identity: identityOf(contract.ClientPlane, own), Trust: Of(contract.ClientPlane)},
		Plane: agentPlane(), Loads: evidence.WhenMounted,
	}
}

// identityOf tells what is presented in a plane from what is presented in the one that is decided about.
func identityOf(plane, own contract.Plane) string {
	if plane == own {
		return publication.NodeIdentity
	}
	return string(plane)
}

// holders are the certificates of applications and backups that are waited for. Those of members are known of these. Nothing
// waits for those of a CA that is distrusted.
func (s *Seen) holders(plane contract.Plane) []evidence.Holder {
	asked := s.Secrets[plane].Key.Annotations
	if plane != contract.ClientPlane || asked[authority.DistrustAnnotation] == authority.DistrustNow {
		return nil
	}
	moved, _ := s.clientsMoved()
	holders, known := map[string]evidence.Holder{}, knownCAs(s.Secrets[plane])
	for _, issued := range s.Ledger {
		if issued.Namespace == "" || issued.CA == "" || issued.IssuedAt.Before(moved) {
			continue
		}
		for _, ca := range signersOf(issued.CA, known) {
			name := fmt.Sprintf("%s with a certificate of CA %.8s", cmp.Or(s.Clients[issued.PodUID], "a client in namespace "+issued.Namespace), ca)
			if issued.NotAfter.After(holders[name].NotAfter) {
				holders[name] = evidence.Holder{Name: name, CA: ca, NotAfter: issued.NotAfter}
			}
		}
	}
	return slices.SortedFunc(maps.Values(holders), func(a, b evidence.Holder) int { return cmp.Compare(a.Name, b.Name) })
}

// knownCAs are the fingerprints of the CA certificates in the Secrets of a CA, sorted.
func knownCAs(secrets Secrets) []string {
	cas := slices.Concat(clientCAs(secrets), authority.PublishedCAs(secrets.Trusted.Data))
	known := make([]string, 0, len(cas))
	for _, ca := range cas {
		known = append(known, pki.FingerprintOf(ca).String())
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// signersOf are the CAs by whose key a certificate may be signed that was issued by this one. A CA that is known no more may have
// been renewed, and the key of any that is known may be its own.
func signersOf(ca string, known []string) []string {
	if slices.Contains(known, ca) {
		return []string{ca}
	}
	return known
}

// clientsMoved is the time up to which certificates of applications are not waited for, by the annotation on the key Secret of the
// client CA; zero where it has no effect, and why says why. A time before the newest CA was made is about an earlier replacement.
func (s *Seen) clientsMoved() (moved time.Time, why string) {
	secrets := s.Secrets[contract.ClientPlane]
	text, isSet := secrets.Key.Annotations[ClientsMovedAnnotation]
	if !isSet {
		return time.Time{}, ""
	}
	moved, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return time.Time{}, "it is not a time as of RFC 3339"
	case moved.After(s.Now):
		return time.Time{}, "the time has not come yet"
	case slices.ContainsFunc(clientCAs(secrets), func(ca *x509.Certificate) bool { return moved.Before(ca.NotBefore.Add(pki.Backdate)) }):
		return time.Time{}, "the time is before the newest client CA was made"
	default:
		return moved, ""
	}
}

// clientCAs are the CA certificates that sign, have signed or are to sign.
func clientCAs(secrets Secrets) []*x509.Certificate {
	cas := authority.PublishedCAs(secrets.Cert.Data)
	if pending, err := pki.ParseBundle(secrets.Key.Data[authority.PendingCertKey]); err == nil {
		cas = append(cas, pending...)
	}
	return cas
}

// Rotating says which CAs are being renewed or replaced, what that waits for, and what a person can do; empty when none is.
func (s *Seen) Rotating(decided Decided) string {
	text := decided.rotating()
	if text == "" || decided[contract.ClientPlane] == nil || len(decided[contract.ClientPlane].Former()) == 0 {
		return text
	}
	secret := s.Cluster.Names.CAKeySecret(contract.ClientPlane)
	if _, why := s.clientsMoved(); why != "" {
		text += fmt.Sprintf(" Annotation %s of Secret %s has no effect: %s.", ClientsMovedAnnotation, secret, why)
	}
	return text + fmt.Sprintf(" When applications have read their Secrets again, set the annotation %s of Secret %s in the operator's namespace to the present time.", ClientsMovedAnnotation, secret)
}

// Stores are what the roles of etcd trust.
func Stores() []publication.Store {
	stores := make([]publication.Store, 0, len(contract.Planes()))
	for _, plane := range contract.Planes() {
		stores = append(stores, publication.Store{Role: plane.Role(), Identity: string(plane), Trust: Of(plane)})
	}
	return stores
}

// presenting is a CA whose certificates are presented with these.
func presenting(ca pki.Authority, crosses []*x509.Certificate) (pki.Authority, error) {
	if ca.IsZero() {
		return ca, nil
	}
	presented, err := pki.NewAuthority(ca.Certificate(), ca.Key(), crosses...)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("signing by %s: %w", ca.Certificate().Subject, err)
	}
	return presented, nil
}
