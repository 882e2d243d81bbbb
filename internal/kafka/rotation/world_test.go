package rotation_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	anchorA = trust.AnchorID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	anchorB = trust.AnchorID("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	keyA    = trust.KeyID("1111111111111111111111111111111111111111111111111111111111111111")
	keyB    = trust.KeyID("2222222222222222222222222222222222222222222222222222222222222222")

	day = 24 * time.Hour
)

func now() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

// change makes a cluster at rest the one that a test is about.
type change func(*rotation.Record)

// atRest is the record of a cluster of nodes under anchor A.
func atRest(nodes int, changes ...change) rotation.Record {
	old := trust.Publication{Data: []trust.AnchorID{anchorA}, Control: []trust.AnchorID{anchorA}, Identity: trust.Identity{Signer: keyA}}
	r := rotation.Record{
		Cluster: "my", Domain: rotation.ClusterCA,
		Snapshot: trust.Snapshot{
			Now:         now(),
			Issuing:     anchorA,
			Anchors:     []trust.Anchor{{ID: anchorA, Name: "a1a1a1a1a1a1a1a1", Key: keyA, NotAfter: now().Add(300 * day), Stored: trust.InUseAll}},
			Application: trust.Application{Anchors: []trust.AnchorID{anchorA}, Since: now().Add(-65 * day)},
			Policy:      trust.Policy{Lead: 2 * time.Minute, RestartMargin: day},
		},
		Anchors: map[trust.AnchorID]rotation.AnchorName{
			anchorA: {CommonName: "cluster-ca v0", SHA1: "a1a1a1a1a1a1a1a1", NotBefore: now().Add(-65 * day), NotAfter: now().Add(300 * day)},
			anchorB: {CommonName: "cluster-ca v1", SHA1: "b2b2b2b2b2b2b2b2", NotBefore: now(), NotAfter: now().Add(365 * day)},
		},
		Members:        map[trust.MemberID]rotation.MemberFacts{},
		Versions:       map[string]string{"Secret my-cluster-ca": "41"},
		RestartSeconds: 21.4, ReloadSeconds: 6.3,
	}
	for i := range nodes {
		id := trust.MemberID(fmt.Sprintf("my-dual-%d", i))
		r.Snapshot.Members = append(r.Snapshot.Members, node(id, old))
		r.Members[id] = rotation.MemberFacts{
			Leaf: fmt.Sprintf("%064x", i), LeafNotAfter: now().Add(300 * day), Published: 3, Mounted: 3, Loaded: 3, StartedAt: now().Add(-10 * day),
		}
	}
	r.Snapshot.Members = append(r.Snapshot.Members, trust.Member{
		ID: "operator", Kind: trust.Operator, Published: trust.Publication{Identity: old.Identity},
		Roles: []trust.Role{role("client", trust.Data, false, true, trust.Publication{Identity: old.Identity})},
	})
	for _, c := range changes {
		c(&r)
	}
	return r
}

// node has the roles of a dual-role node with one client listener.
func node(id trust.MemberID, p trust.Publication) trust.Member {
	m := trust.Member{ID: id, Published: p, Roles: []trust.Role{
		role("replication-9091", trust.Data, true, true, p),
		role("tls-9093", trust.Data, false, true, p),
		role("agent", trust.Data, true, true, p),
		role("controlplane-9090", trust.Control, true, true, p),
		role("raft", trust.Raft, true, true, p),
	}}
	m.Roles[4].Evidence.HeldUntil = now().Add(300 * day)
	return m
}

func role(name string, plane trust.Plane, verifies, presents bool, p trust.Publication) trust.Role {
	r := trust.Role{Name: name, Plane: plane, Verifies: verifies, Presents: presents}
	r.Evidence = trust.Evidence{Process: trust.ProcessRunning, Loaded: published(p, plane), Since: now().Add(-10 * day)}
	return r
}

func published(p trust.Publication, plane trust.Plane) trust.Stores {
	if plane == trust.Data {
		return trust.Stores{Trust: p.Data, Identity: p.Identity}
	}
	return trust.Stores{Trust: p.Control, Identity: p.Identity}
}

func replaced(r *rotation.Record) {
	r.Snapshot.Issuing = anchorB
	r.Snapshot.Anchors = append(r.Snapshot.Anchors, trust.Anchor{ID: anchorB, Name: "b2b2b2b2b2b2b2b2", Key: keyB, NotAfter: now().Add(365 * day)})
}

func crossed(r *rotation.Record) {
	r.Snapshot.Anchors[1].Cross = []trust.Cross{{Issuer: keyA, NotAfter: now().Add(300 * day)}}
}

func renewed(r *rotation.Record) {
	replaced(r)
	r.Snapshot.Anchors[1].Key = keyA
}

func restartsOnly(r *rotation.Record) { r.Snapshot.Policy.Reload = trust.RestartOnly }

func paused(r *rotation.Record) { r.Snapshot.Policy.Paused = true }

func distrusted(r *rotation.Record) {
	r.Snapshot.Anchors[0].Compromised, r.Snapshot.Anchors[1].Cross[0].Distrusted = true, true
}

// silent makes a member silent since then.
func silent(id trust.MemberID, since time.Time) change {
	return func(r *rotation.Record) {
		for i := range r.Snapshot.Members {
			m := &r.Snapshot.Members[i]
			if m.ID != id {
				continue
			}
			for j := range m.Roles {
				m.Roles[j].Evidence = trust.Evidence{Since: since}
			}
		}
	}
}

// clients makes it the domain of the clients CA: nodes verify, users present.
func clients(r *rotation.Record) {
	r.Domain = rotation.ClientsCA
	for id, name := range r.Anchors {
		name.CommonName = strings.Replace(name.CommonName, "cluster", "clients", 1)
		r.Anchors[id] = name
	}
	r.Snapshot.Policy.Retirement = trust.RetireExpired
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		m.Published = trust.Publication{Data: []trust.AnchorID{anchorA}}
		m.Roles = []trust.Role{role("tls-9093", trust.Data, true, false, m.Published)}
	}
	r.Snapshot.Members = r.Snapshot.Members[:len(r.Snapshot.Members)-1]
	p := trust.Publication{Identity: trust.Identity{Signer: keyA}}
	r.Snapshot.Members = append(r.Snapshot.Members, trust.Member{
		ID: "user alice", Kind: trust.Holder, Published: p, Roles: []trust.Role{role("", trust.Data, false, true, p)},
	})
}

// ofOthers is a clients CA whose certificates nobody here knows.
func ofOthers(r *rotation.Record) {
	r.Snapshot.Members = r.Snapshot.Members[:len(r.Snapshot.Members)-1]
	r.Snapshot.Anchors[0].Stored = trust.TrustedUnused
}

// brandNew is a cluster that nothing was given to yet.
func brandNew(r *rotation.Record) {
	r.Snapshot.Anchors[0].Stored, r.Snapshot.Application = trust.Absent, trust.Application{}
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		m.Published = trust.Publication{}
		for j := range m.Roles {
			m.Roles[j].Evidence = trust.Evidence{Process: trust.ProcessNone}
		}
	}
}

// write puts a plan's objects into the snapshot.
func write(s *trust.Snapshot, p trust.Plan) {
	for i := range s.Anchors {
		s.Anchors[i].Stored = p.States[s.Anchors[i].ID]
	}
	if !slices.Equal(s.Application.Anchors, p.Application) {
		s.Application = trust.Application{Anchors: p.Application, Since: s.Now}
	}
	for i := range s.Members {
		m := &s.Members[i]
		m.Published = p.Publications[m.ID]
		if m.Kind == trust.Operator {
			m.Roles[0].Evidence.Loaded.Identity = m.Published.Identity
		}
	}
}

// load lets members load what is asked of them; with a reload, settings stay.
func load(s *trust.Snapshot, loads []trust.Load) {
	for _, l := range loads {
		i := slices.IndexFunc(s.Members, func(m trust.Member) bool { return m.ID == l.Member })
		m := &s.Members[i]
		for j := range m.Roles {
			r := &m.Roles[j]
			if l.How == trust.ByReload && !slices.Contains(l.Planes, r.Plane) {
				continue
			}
			r.Evidence.Loaded = published(m.Published, r.Plane)
			r.Evidence.Since = s.Now
		}
	}
}

// start lets members without a process start on what they find.
func start(s *trust.Snapshot) bool {
	started := false
	for i := range s.Members {
		m := &s.Members[i]
		for j := range m.Roles {
			r := &m.Roles[j]
			if m.Kind == trust.Node && r.Evidence.Process == trust.ProcessNone && len(m.Published.Data) > 0 {
				r.Evidence = trust.Evidence{Process: trust.ProcessRunning, Loaded: published(m.Published, r.Plane), Since: s.Now}
				started = true
			}
		}
	}
	return started
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
