package reporttest

import (
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// bench is a subject with what is published to it.
type bench struct {
	Subject

	// coming is another authority, and cross its certificate by the first.
	coming pki.Authority
	cross  *x509.Certificate
	// published and mounted are what the node is given now, identity what it is to present.
	published publication.Publication
	mounted   stores.Mounted
	identity  stores.Identity
	loading   publication.Loading
}

func newBench(t *testing.T, s Subject) *bench {
	t.Helper()
	b := &bench{Subject: s, mounted: s.Mounted, coming: agenttest.Authority(t, "cluster-ca of the suite", s.Now())}
	var err error
	if b.cross, err = pki.CrossSign(s.Signer, b.coming.Certificate(), s.Now()); err != nil {
		t.Fatal(err)
	}
	if b.published, err = publication.ParsePublication(s.Mounted.Node[agent.PublicationKey]); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) all() []publication.Role { return append(slices.Clone(b.Cluster), b.Clients) }

func (b *bench) after() []*x509.Certificate { return []*x509.Certificate{b.coming.Certificate()} }

func (b *bench) both() []*x509.Certificate { return append(b.after(), b.Signer.Certificate()) }

func (b *bench) issue(t *testing.T, by pki.Authority, now time.Time) stores.Identity {
	t.Helper()
	return agenttest.Leaf(t, by, "my-cluster-kafka", now, b.Names...)
}

// leaf is another one of the first authority.
func (b *bench) leaf(t *testing.T) stores.Identity {
	t.Helper()
	return b.issue(t, b.Signer, b.Now())
}

// renewed is one of the coming authority, which the first cross-signs.
func (b *bench) renewed(t *testing.T) stores.Identity {
	t.Helper()
	identity := b.issue(t, b.coming, b.Now())
	identity.Chain = append(identity.Chain, b.cross)
	return identity
}

// early is one that is not valid for hours.
func (b *bench) early(t *testing.T) stores.Identity {
	t.Helper()
	identity := b.issue(t, b.coming, b.Now().Add(6*time.Hour))
	identity.Chain = append(identity.Chain, b.cross)
	return identity
}

// publish mounts the next publication, volume after volume.
func (b *bench) publish(t *testing.T, identity stores.Identity, cluster, raft []*x509.Certificate) {
	t.Helper()
	b.next(t, identity, cluster, raft)
	b.mount(t, stores.Mounted{Node: b.mounted.Node, ClusterTrust: b.mounted.ClusterTrust})
}

// next makes the next publication and mounts nothing of it yet. No anchors for Raft mean
// those of all.
func (b *bench) next(t *testing.T, identity stores.Identity, cluster, raft []*x509.Certificate) {
	t.Helper()
	p := b.published
	p.Revision++
	p.Loading = b.loading
	p.Identities, p.Trust = maps.Clone(p.Identities), maps.Clone(p.Trust)
	p.Identities[publication.NodeIdentity] = identity.Fingerprint()
	p.Chain = agenttest.Fingerprints(identity.Chain[1:]...)
	delete(p.Trust, contract.RaftRole)
	for _, listener := range append(slices.Clone(b.Cluster), publication.AgentRole) {
		p.Trust[listener] = sorted(cluster)
	}
	if raft != nil {
		p.Trust[contract.RaftRole] = sorted(raft)
	}
	b.published, b.identity = p, identity
	b.mounted.Node = maps.Clone(b.mounted.Node)
	agenttest.PutIdentity(b.mounted.Node, b.Name, identity)
	agenttest.PutPublication(t, b.mounted.Node, p)
	b.mounted.ClusterTrust = agenttest.TrustDirectory(append(slices.Clone(cluster), raft...)...)
}

func (b *bench) mount(t *testing.T, content stores.Mounted) {
	t.Helper()
	b.Mount(t, content)
}

func sorted(certs []*x509.Certificate) []string {
	return slices.Sorted(slices.Values(agenttest.Fingerprints(certs...)))
}

func (b *bench) report(t *testing.T) publication.Report {
	t.Helper()
	return b.until(t, "it answers", func(publication.Report) bool { return true })
}

// settled reports whether nothing is left to be done for what is published.
func (b *bench) settled(r publication.Report) bool {
	return r.Revision == b.published.Revision && r.Reload == publication.ReloadReport{Revision: r.Revision}
}

// compare holds a report against what is published, and says which listeners are to have
// settings of reloads.
func (b *bench) compare(t *testing.T, r publication.Report, published publication.Publication, dynamic []publication.Role) {
	t.Helper()
	if r.Mounted == nil || r.Mounted.Revision != published.Revision || !r.Mounted.SameContent(published) {
		t.Errorf("it says that %+v is mounted, want %+v", r.Mounted, published)
	}
	for _, listener := range b.all() {
		want := publication.RoleReport{
			Trusts: published.Trust[listener], Presents: published.Identities[publication.NodeIdentity], Chain: published.Chain,
			NotAfter: r.Roles[listener].NotAfter, Dynamic: slices.Contains(dynamic, listener),
		}
		if len(want.Chain) == 0 {
			want.Chain = nil
		}
		if diff := cmp.Diff(want, r.Roles[listener]); diff != "" {
			t.Errorf("%s (-published +reported):\n%s", listener, diff)
		}
	}
	said := r.Roles[publication.AgentRole]
	if said.Presents != published.Identities[publication.NodeIdentity] || !slices.Equal(said.Trusts, published.Trust[publication.AgentRole]) || said.Dynamic {
		t.Errorf("the agent is said to have %+v, want what is mounted", said)
	}
	if len(r.Unknown) > 0 || len(r.Loading) > 0 {
		t.Errorf("unknown are %v, and %d publications may come to be loaded; want neither", r.Unknown, len(r.Loading))
	}
}

// named fails unless the report holds each certificate that it names, and says when the
// first of those that a role presents ends.
func (b *bench) named(t *testing.T, r publication.Report) {
	t.Helper()
	for role, said := range r.Roles {
		var end time.Time
		for i, fingerprint := range slices.Concat([]string{said.Presents}, said.Chain, said.Trusts) {
			cert, err := x509.ParseCertificate(r.Certificates[fingerprint])
			if err != nil || pki.FingerprintOf(cert).String() != fingerprint {
				t.Errorf("%s: the certificate %s is not in the report: %v", role, fingerprint, err)
				continue
			}
			if presented := i <= len(said.Chain); presented && (i == 0 || cert.NotAfter.Before(end)) {
				end = cert.NotAfter
			}
		}
		if !said.NotAfter.Equal(end) {
			t.Errorf("%s is said to end at %s, want %s", role, said.NotAfter, end)
		}
	}
}

// sameProcess fails if the server was started since, or its Raft client has anything else.
func (b *bench) sameProcess(t *testing.T, before, after publication.Report) {
	t.Helper()
	if !after.StartedAt.Equal(before.StartedAt) {
		t.Errorf("started at %s, want %s as before", after.StartedAt, before.StartedAt)
	}
	if diff := cmp.Diff(before.Roles[contract.RaftRole], after.Roles[contract.RaftRole]); diff != "" {
		t.Errorf("the Raft client (-before +after):\n%s", diff)
	}
}

// unchanged fails if the server has loaded anything since.
func (b *bench) unchanged(t *testing.T, before, after publication.Report) {
	t.Helper()
	b.sameProcess(t, before, after)
	if after.Revision != before.Revision {
		t.Errorf("revision %d, want %d as before", after.Revision, before.Revision)
	}
	for _, listener := range b.all() {
		if diff := cmp.Diff(before.Roles[listener], after.Roles[listener]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", listener, diff)
		}
	}
}

// until asks again and again, and returns the first report that is as wanted.
func (b *bench) until(t *testing.T, what string, holds func(publication.Report) bool) publication.Report {
	t.Helper()
	over := time.NewTimer(settleLimit)
	defer over.Stop()
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		b.Work()
		report, err := b.Report(t.Context())
		if err == nil && holds(report) {
			return report
		}
		select {
		case <-over.C:
			t.Fatalf("not within %s: %s: %+v, %v", settleLimit, what, report, err)
		case <-tick.C:
		}
	}
}
