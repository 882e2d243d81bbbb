package evidence_test

import (
	"crypto/x509"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// member is one of a server whose members make their own keys: publications say what they trust and nothing of what they present.
// They reload what they present and keep what they trust from their start.
type member struct {
	ca     pki.Authority
	node   evidence.Node
	domain evidence.Domain
}

const (
	peerRole publication.Role   = "peer"
	peers    publication.Domain = "peers"
)

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{ca: ca(t, "v0")}
	anchor := m.ca.Certificate()
	plane := trust.Plane{Name: "peer", Trust: trust.AtStart, Prompt: true, Keeper: "the server"}
	m.node = evidence.Node{
		Name: "my-0", State: evidence.Running, Since: now().Add(-time.Hour), Presents: []*x509.Certificate{leaf(t, m.ca)},
		Published: publication.Publication{Revision: 2, Trust: map[publication.Role][]string{peerRole: {id(anchor)}}},
		Roles: []evidence.Role{
			{Store: publication.Store{Role: peerRole, Identity: publication.NodeIdentity, Trust: peers}, Plane: plane, Always: true},
			{
				Store: publication.Store{Role: publication.AgentRole, Identity: publication.NodeIdentity, Trust: peers},
				Plane: trust.Plane{Name: "agent"}, Loads: evidence.WhenMounted,
			},
		},
	}
	report := publication.Report{Revision: 2, Mounted: &m.node.Published, Roles: map[publication.Role]publication.RoleReport{}, Certificates: map[string][]byte{}}
	for _, role := range m.node.Roles {
		report.Roles[role.Role] = publication.RoleReportOf(m.node.Presents, []*x509.Certificate{anchor})
	}
	report.Certificates[id(m.node.Presents[0])] = m.node.Presents[0].Raw
	m.node.Report = report
	m.domain = evidence.Domain{
		Name: peers, Stored: []authority.Anchor{{Certificate: anchor, State: trust.InUseAll}},
		Authority: authority.Decision{
			Authority: m.ca, Certificate: anchor, Keys: []pki.Authority{m.ca}, Published: []*x509.Certificate{anchor},
		},
	}
	return m
}

func (m *member) snapshot(agents evidence.Role) trust.Snapshot {
	c := evidence.Cluster{Now: now(), Own: peers, Nodes: []evidence.Node{m.node}, Agents: agents}
	return evidence.Snapshot(c, m.domain, evidence.Known(c, m.domain))
}

func (m *member) role(t *testing.T, name publication.Role) trust.Role {
	t.Helper()
	roles := m.snapshot(evidence.Role{}).Members[0].Roles
	i := slices.IndexFunc(roles, func(r trust.Role) bool { return r.Name == string(name) })
	if i < 0 {
		t.Fatalf("roles are %+v, want %s among them", roles, name)
	}
	return roles[i]
}

func TestARoleThatAPublicationDoesNotNameTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	want := []trust.AnchorID{evidence.AnchorID(m.ca.Certificate())}
	if got := m.snapshot(evidence.Role{}).Members[0].Published.Main; !slices.Equal(got, want) {
		t.Errorf("published are %v, want %v", got, want)
	}
}

// Kubelets lag: what is mounted names CAs alone, and the member presents what it was given since.
func TestAMountedPublicationWithoutCertificatesSaysNothingOfThem(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	mounted := m.node.Published
	mounted.Revision = 1
	m.node.Report.Mounted = &mounted
	e := m.role(t, peerRole).Evidence
	if len(e.Mounted) != 1 || !reflect.DeepEqual(e.Mounted[0].Identity, e.Loaded.Identity) {
		t.Errorf("a start would find %+v, want the identity %+v", e.Mounted, e.Loaded.Identity)
	}
}

func TestTheOperatorIsAMemberWhereItIsAClientOfAgents(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	for name, c := range map[string]struct {
		agents evidence.Role
		want   []trust.MemberID
	}{
		"it asks agents":   {m.node.Roles[1], []trust.MemberID{evidence.OperatorMember, "my-0"}},
		"it asks no agent": {evidence.Role{}, []trust.MemberID{"my-0"}},
	} {
		var got []trust.MemberID
		for _, of := range m.snapshot(c.agents).Members {
			got = append(got, of.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: members (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatIsHeldFromTheStartEndsAsThePlaneSays(t *testing.T) {
	t.Parallel()
	anchorEnd, leafEnd := now().Add(24*time.Hour), now().Add(time.Hour)
	for name, c := range map[string]struct {
		plane                 trust.Plane
		heldUntil, lastsUntil time.Time
	}{
		"what it trusts":   {trust.Plane{Trust: trust.AtStart}, anchorEnd, anchorEnd},
		"everything":       {trust.Plane{Trust: trust.AtStart, Identity: trust.AtStart}, leafEnd, leafEnd},
		"nothing":          {trust.Plane{}, time.Time{}, time.Time{}},
		"what it presents": {trust.Plane{Identity: trust.AtStart}, leafEnd, leafEnd},
	} {
		m := newMember(t)
		m.node.Roles[0].Plane = c.plane
		if got := m.role(t, peerRole).Evidence.HeldUntil; !got.Equal(c.heldUntil) {
			t.Errorf("%s: held until %s, want %s", name, got, c.heldUntil)
		}
		if got := m.snapshot(evidence.Role{}).Members[0].LastsUntil; !got.Equal(c.lastsUntil) {
			t.Errorf("%s: a start would give what lasts until %s, want %s", name, got, c.lastsUntil)
		}
	}
}

func TestWhatIsReloadedHasNoEndThatCounts(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	ending, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "ending"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: time.Minute, Now: now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.domain.Authority.Published = append(m.domain.Authority.Published, ending.Certificate())
	m.node.Roles[0].Plane = trust.Plane{Identity: trust.AtStart}
	m.node.Report.Roles[peerRole] = publication.RoleReportOf(m.node.Presents, []*x509.Certificate{ending.Certificate()})
	if got, want := m.role(t, peerRole).Evidence.HeldUntil, now().Add(time.Hour); !got.Equal(want) {
		t.Errorf("held until %s, want the end of the leaf, %s", got, want)
	}
}

func TestAnAgentHoldsNothingFromItsStart(t *testing.T) {
	t.Parallel()
	if got := newMember(t).role(t, publication.AgentRole).Evidence.HeldUntil; !got.IsZero() {
		t.Errorf("held until %s, want no end", got)
	}
}

func TestHoldersPresentWhatTheyWereGivenUntilItEnds(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.domain.Holders = []evidence.Holder{
		{Name: "an application", CA: id(m.ca.Certificate()), NotAfter: now().Add(time.Minute)},
		{Name: "one of a CA that is gone", CA: "00", NotAfter: now().Add(time.Minute)},
		{Name: "one that has ended", CA: id(m.ca.Certificate()), NotAfter: now().Add(-time.Minute)},
	}
	signers := map[trust.MemberID]bool{}
	for _, of := range m.snapshot(evidence.Role{}).Members {
		if of.Kind == trust.Holder {
			signers[of.ID] = of.Published.Identity.Signer == key(m.ca.Certificate()) && of.Roles[0].Evidence.Loaded.Identity.Signer == of.Published.Identity.Signer
		}
	}
	if diff := cmp.Diff(map[trust.MemberID]bool{"an application": true, "one of a CA that is gone": false}, signers); diff != "" {
		t.Errorf("which present leaves of the CA (-want +got):\n%s", diff)
	}
}
