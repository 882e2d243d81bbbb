// Package rotationtest makes records of rotations for tests, and plays them on a
// cluster that obeys.
package rotationtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Two authorities: A is there, B comes.
const (
	AnchorA = trust.AnchorID("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	AnchorB = trust.AnchorID("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	KeyA    = trust.KeyID("1111111111111111111111111111111111111111111111111111111111111111")
	KeyB    = trust.KeyID("2222222222222222222222222222222222222222222222222222222222222222")

	// Day is 24 hours.
	Day = 24 * time.Hour
)

// Now is when everything begins.
func Now() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

// Change makes a cluster at rest the one that a test is about.
type Change func(*rotation.Record)

// AtRest is the record of a cluster of nodes under anchor A.
func AtRest(nodes int, changes ...Change) rotation.Record {
	old := trust.Publication{Main: []trust.AnchorID{AnchorA}, Late: []trust.AnchorID{AnchorA}, Identity: trust.Identity{Signer: KeyA}}
	r := rotation.Record{
		Words: authorities.Words(), Cluster: "my", Domain: string(authorities.Cluster),
		Snapshot: trust.Snapshot{
			Now:         Now(),
			Issuing:     AnchorA,
			Anchors:     []trust.Anchor{{ID: AnchorA, Name: "a1a1a1a1a1a1a1a1", Key: KeyA, NotAfter: Now().Add(300 * Day), Stored: trust.InUseAll}},
			Application: trust.Application{Anchors: []trust.AnchorID{AnchorA}, Since: Now().Add(-65 * Day)},
			Policy:      trust.Policy{Lead: 2 * time.Minute, RestartMargin: Day},
		},
		Anchors: map[trust.AnchorID]rotation.AnchorName{
			AnchorA: {CommonName: "cluster-ca v0", SHA1: "a1a1a1a1a1a1a1a1", NotBefore: Now().Add(-65 * Day), NotAfter: Now().Add(300 * Day)},
			AnchorB: {CommonName: "cluster-ca v1", SHA1: "b2b2b2b2b2b2b2b2", NotBefore: Now(), NotAfter: Now().Add(365 * Day)},
		},
		Members:        map[trust.MemberID]rotation.MemberFacts{},
		Versions:       map[string]string{"Secret my-cluster-ca": "41"},
		RestartSeconds: 21.4, ReloadSeconds: 6.3,
	}
	for i := range nodes {
		id := trust.MemberID(fmt.Sprintf("my-dual-%d", i))
		r.Snapshot.Members = append(r.Snapshot.Members, node(id, old))
		r.Members[id] = rotation.MemberFacts{
			Leaf: fmt.Sprintf("%064x", i), LeafNotAfter: Now().Add(300 * Day), Published: 3, Mounted: 3, Loaded: 3, StartedAt: Now().Add(-10 * Day),
		}
	}
	r.Snapshot.Members = append(r.Snapshot.Members, trust.Member{
		ID: "operator", Kind: trust.Operator, Published: trust.Publication{Identity: old.Identity},
		Roles: []trust.Role{role("client", roles.Data(), false, true, trust.Publication{Identity: old.Identity})},
	})
	for _, c := range changes {
		c(&r)
	}
	return r
}

// node has the roles of a dual-role node with one client listener.
func node(id trust.MemberID, p trust.Publication) trust.Member {
	m := trust.Member{ID: id, Published: p, LastsUntil: Now().Add(360 * Day), Roles: []trust.Role{
		role("replication-9091", roles.Data(), true, true, p),
		role("tls-9093", roles.Data(), false, true, p),
		role("agent", roles.Data(), true, true, p),
		role("controlplane-9090", roles.Control(), true, true, p),
		role("raft", roles.Raft(), true, true, p),
	}}
	m.Roles[4].Evidence.HeldUntil = Now().Add(300 * Day)
	return m
}

func role(name string, plane trust.Plane, verifies, presents bool, p trust.Publication) trust.Role {
	r := trust.Role{Name: name, Plane: plane, Verifies: verifies, Presents: presents}
	r.Evidence = trust.Evidence{Process: trust.ProcessRunning, Loaded: p.To(plane), Since: Now().Add(-10 * Day)}
	return r
}

// Replaced puts authority B in the place of A.
func Replaced(r *rotation.Record) {
	r.Snapshot.Issuing = AnchorB
	r.Snapshot.Anchors = append(r.Snapshot.Anchors, trust.Anchor{ID: AnchorB, Name: "b2b2b2b2b2b2b2b2", Key: KeyB, NotAfter: Now().Add(365 * Day)})
}

// Crossed lets A sign B.
func Crossed(r *rotation.Record) {
	r.Snapshot.Anchors[1].Cross = []trust.Cross{{Issuer: KeyA, NotAfter: Now().Add(300 * Day)}}
}

// Renewed gives A a new certificate, B.
func Renewed(r *rotation.Record) {
	Replaced(r)
	r.Snapshot.Anchors[1].Key = KeyA
}

// RestartsOnly switches reloads off.
func RestartsOnly(r *rotation.Record) { r.Snapshot.Policy.Reload = trust.RestartOnly }

// Paused pauses the Kafka.
func Paused(r *rotation.Record) { r.Snapshot.Policy.Paused = true }

// Distrusted says that the key of A is compromised.
func Distrusted(r *rotation.Record) {
	r.Snapshot.Anchors[0].Compromised, r.Snapshot.Anchors[1].Cross[0].Distrusted = true, true
}

// Silent makes a member silent since then.
func Silent(id trust.MemberID, since time.Time) Change {
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

// Clients makes it the domain of the clients CA: nodes verify, users present.
func Clients(r *rotation.Record) {
	r.Domain = string(authorities.Clients)
	for id, name := range r.Anchors {
		name.CommonName = strings.Replace(name.CommonName, "cluster", "clients", 1)
		r.Anchors[id] = name
	}
	r.Snapshot.Policy.Retirement = trust.RetireExpired
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		m.Published = trust.Publication{Main: []trust.AnchorID{AnchorA}}
		m.Roles = []trust.Role{role("tls-9093", roles.Data(), true, false, m.Published)}
	}
	r.Snapshot.Members = r.Snapshot.Members[:len(r.Snapshot.Members)-1]
	p := trust.Publication{Identity: trust.Identity{Signer: KeyA}}
	r.Snapshot.Members = append(r.Snapshot.Members, trust.Member{
		ID: "user alice", Kind: trust.Holder, Published: p, Roles: []trust.Role{role("", roles.Data(), false, true, p)},
	})
}

// OfOthers is a clients CA whose client certificates Keyturn does not know.
func OfOthers(r *rotation.Record) {
	r.Snapshot.Members = r.Snapshot.Members[:len(r.Snapshot.Members)-1]
	r.Snapshot.Anchors[0].Stored = trust.TrustedUnused
}

// BrandNew is a cluster that nothing was given to yet.
func BrandNew(r *rotation.Record) {
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
			obey(r, l.How, m.Published.To(r.Plane))
			r.Evidence.Since = s.Now
		}
	}
}

// obey runs a role on what is published. Settings of a reload win at every later
// start, as the server keeps them.
func obey(r *trust.Role, how trust.How, now trust.Stores) {
	kept := r.Evidence.Persisted
	switch {
	case how == trust.ByRestart && r.Plane.Reloads() && len(kept) > 0:
		r.Evidence.Loaded, r.Evidence.Static = kept[0], now
	case how == trust.ByReload:
		r.Evidence.Loaded, r.Evidence.Persisted = now, []trust.Stores{now}
	default:
		r.Evidence.Loaded, r.Evidence.Static, r.Evidence.Persisted = now, now, nil
	}
}

// start lets members without a process start on what they find.
func start(s *trust.Snapshot) bool {
	started := false
	for i := range s.Members {
		m := &s.Members[i]
		for j := range m.Roles {
			r := &m.Roles[j]
			if m.Kind == trust.Node && r.Evidence.Process == trust.ProcessNone && len(m.Published.Main) > 0 {
				r.Evidence = trust.Evidence{Process: trust.ProcessRunning, Loaded: m.Published.To(r.Plane), Since: s.Now}
				started = true
			}
		}
	}
	return started
}

// Advance lets one thing happen: a write, a load, a restart that the rotation does not wait for, or the
// time that applications get.
func Advance(s *trust.Snapshot, plan trust.Plan) bool {
	writes := slices.ContainsFunc(trust.Steps(*s, plan), func(step trust.Step) bool { return step.Kind != trust.Loading })
	asked := slices.DeleteFunc(slices.Clone(plan.Loads), func(l trust.Load) bool { return l.MayBeDeferred })
	switch {
	case writes:
		write(s, plan)
	case len(asked) > 0:
		load(s, asked)
	case start(s):
	case len(plan.Loads) > 0:
		load(s, plan.Loads)
	default:
		return reading(s) || reissue(s, plan.Signer) || expire(s, plan)
	}
	return true
}

// reading lets the time pass that applications get.
func reading(s *trust.Snapshot) bool {
	ready := s.Application.Since.Add(s.Policy.Lead)
	if !s.Now.Before(ready) {
		return false
	}
	s.Now = ready
	return true
}

// expire lets the time pass until an anchor ends that is kept until then.
func expire(s *trust.Snapshot, plan trust.Plan) bool {
	kept := slices.ContainsFunc(plan.Blockers, func(b trust.Blocker) bool { return b.Guard == trust.GuardRetired })
	if !kept || !s.Now.Before(plan.Deadline) {
		return false
	}
	s.Now = plan.Deadline
	return true
}

// reissue gives users certificates of the anchor that signs now.
func reissue(s *trust.Snapshot, signer trust.AnchorID) bool {
	turned := false
	for i := range s.Members {
		m := &s.Members[i]
		for _, a := range s.Anchors {
			if m.Kind == trust.Holder && a.ID == signer && m.Published.Identity.Signer != a.Key {
				m.Published.Identity = trust.Identity{Signer: a.Key}
				m.Roles[0].Evidence.Loaded.Identity = m.Published.Identity
				turned = true
			}
		}
	}
	return turned
}

// passes is more than any rotation here takes.
const passes = 60

// Until plays a rotation until it stands in a phase, and reports whether it ever
// does.
func Until(r rotation.Record, phase rotation.Phase) (rotation.Record, bool) {
	for range passes {
		plan := trust.Decide(r.Snapshot)
		if r.Words.PhaseOf(r.Snapshot, plan) == phase {
			return r, true
		}
		if !Advance(&r.Snapshot, plan) {
			break
		}
	}
	return r, false
}
