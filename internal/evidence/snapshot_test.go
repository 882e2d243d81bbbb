package evidence_test

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

func key(cert *x509.Certificate) trust.KeyID { return evidence.KeyID(cert) }

// shape is a role without its evidence.
type shape struct {
	Plane              trust.Plane
	Verifies, Presents bool
}

func shapes(m trust.Member) map[string]shape {
	out := map[string]shape{}
	for _, r := range m.Roles {
		out[r.Name] = shape{r.Plane, r.Verifies, r.Presents}
	}
	return out
}

func TestEachStoreHasItsRoles(t *testing.T) {
	t.Parallel()
	dual := map[string]shape{
		"agent":             {roles.Data(), true, true},
		"controlplane-9090": {roles.Control(), true, true},
		"raft":              {roles.Raft(), true, true},
		"replication-9091":  {roles.Data(), true, true},
		"tls-9093":          {roles.Data(), false, true},
	}
	for name, c := range map[string]struct {
		change func(w *world)
		want   map[string]shape
	}{
		"a node with both roles": {want: dual},
		"a broker has a Raft client and no controller listener": {
			change: func(w *world) { w.node.Roles = roles.Of(stores(), stores()[1:]) },
			want: map[string]shape{
				"agent": dual["agent"], "raft": dual["raft"], "replication-9091": dual["replication-9091"], "tls-9093": dual["tls-9093"],
			},
		},
		"a listener with a certificate of its own is not of the cluster CA": {
			change: (*world).identify,
			want: map[string]shape{
				"agent": dual["agent"], "controlplane-9090": dual["controlplane-9090"], "raft": dual["raft"], "replication-9091": dual["replication-9091"],
			},
		},
		"the clients CA": {
			change: func(w *world) { w.domain.Name = contract.ClientsDomain },
			want:   map[string]shape{"tls-9093": {roles.Data(), true, false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.change != nil {
				c.change(w)
			}
			if diff := cmp.Diff(c.want, shapes(w.member(t))); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANodeWithoutListenersOfTheClientsCAIsNoMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node.Roles = roles.Of(stores()[:2], stores()[:2])
	w.domain.Name = contract.ClientsDomain
	if s := w.snapshot(); len(s.Members) != 0 {
		t.Errorf("members are %+v, want none", s.Members)
	}
}

func TestAnchorsAreAllThatAnybodyHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, coming := w.outgoing.Certificate(), w.incoming.Certificate()

	s := w.snapshot()

	got := map[trust.AnchorID]trust.Anchor{}
	for _, anchor := range s.Anchors {
		anchor.Name = ""
		got[anchor.ID] = anchor
	}
	want := map[trust.AnchorID]trust.Anchor{
		evidence.AnchorID(old): {ID: evidence.AnchorID(old), Key: key(old), NotAfter: old.NotAfter, Signs: true, Stored: trust.InUseAll},
		evidence.AnchorID(coming): {
			ID: evidence.AnchorID(coming), Key: key(coming), NotAfter: coming.NotAfter, Signs: true,
			Cross: []trust.Cross{{Issuer: key(old), NotAfter: w.cross.NotAfter}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	if s.Issuing != evidence.AnchorID(coming) {
		t.Errorf("issuing is %s, want the pending one", s.Issuing)
	}
}

func TestDistrustCompromisesEveryKeyButTheTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.domain.Authority.Distrust = true
	for _, anchor := range w.snapshot().Anchors {
		if want := anchor.Key == key(w.outgoing.Certificate()); anchor.Compromised != want {
			t.Errorf("anchor %s compromised: %t, want %t", anchor.ID, anchor.Compromised, want)
		}
		for _, cross := range anchor.Cross {
			if !cross.Distrusted {
				t.Error("the cross certificate of a compromised authority is not distrusted")
			}
		}
	}
}

func TestIdentityIsWhoSignedAndWhoVouches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chain func(t *testing.T, w *world) []*x509.Certificate
		want  func(w *world, chain []*x509.Certificate) trust.Identity
	}{
		"a leaf of the old authority": {
			chain: func(t *testing.T, w *world) []*x509.Certificate {
				t.Helper()
				return []*x509.Certificate{leaf(t, w.outgoing)}
			},
			want: func(w *world, _ []*x509.Certificate) trust.Identity {
				return trust.Identity{Signer: key(w.outgoing.Certificate())}
			},
		},
		"a leaf of the new one that the old one cross-signs": {
			chain: func(t *testing.T, w *world) []*x509.Certificate {
				t.Helper()
				return []*x509.Certificate{leaf(t, w.incoming), w.cross}
			},
			want: func(w *world, _ []*x509.Certificate) trust.Identity {
				return trust.Identity{Signer: key(w.incoming.Certificate()), Cross: []trust.KeyID{key(w.outgoing.Certificate())}}
			},
		},
		"a cross certificate for another key counts for nothing": {
			chain: func(t *testing.T, w *world) []*x509.Certificate {
				t.Helper()
				return []*x509.Certificate{leaf(t, w.outgoing), w.cross}
			},
			want: func(w *world, _ []*x509.Certificate) trust.Identity {
				return trust.Identity{Signer: key(w.outgoing.Certificate())}
			},
		},
		"a stranger's leaf is nobody's": {
			chain: func(t *testing.T, _ *world) []*x509.Certificate {
				t.Helper()
				return []*x509.Certificate{leaf(t, ca(t, "stranger"))}
			},
			want: func(_ *world, chain []*x509.Certificate) trust.Identity {
				return trust.Identity{Signer: trust.KeyID("unknown signer of " + id(chain[0]))}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			chain := c.chain(t, w)
			w.present(chain...)
			w.publish(4, id(w.outgoing.Certificate()))
			w.load()
			if diff := cmp.Diff(c.want(w, chain), w.member(t).Published.Identity); diff != "" {
				t.Errorf("published (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want(w, chain), w.evidence(t, contract.ReplicationListener).Loaded.Identity); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world)
		role   publication.Role
		want   trust.Process
	}{
		"a server that runs":                      {role: contract.ReplicationListener, want: trust.ProcessRunning},
		"silence proves nothing":                  {func(w *world) { w.node.State = evidence.Unknown }, contract.ReplicationListener, trust.ProcessUnknown},
		"no pod is no process":                    {func(w *world) { w.node.State = evidence.Absent }, contract.ReplicationListener, trust.ProcessNone},
		"a server that has not started":           {func(w *world) { delete(w.node.Report.Roles, contract.ReplicationListener) }, contract.ReplicationListener, trust.ProcessNone},
		"mounts between two states":               {func(w *world) { w.node.Report.Mounted = nil }, contract.ReplicationListener, trust.ProcessUnknown},
		"the agent's own server is one":           {role: publication.AgentRole, want: trust.ProcessRunning},
		"and so is the Raft client":               {role: contract.RaftRole, want: trust.ProcessRunning},
		"a report without a Raft client":          {func(w *world) { delete(w.node.Report.Roles, contract.RaftRole) }, contract.RaftRole, trust.ProcessUnknown},
		"nor one without its controller listener": {func(w *world) { delete(w.node.Report.Roles, contract.ControlPlaneListener) }, contract.ControlPlaneListener, trust.ProcessUnknown},
		"no Raft client before a start":           {func(w *world) { w.node.Report.Revision = 0; delete(w.node.Report.Roles, contract.RaftRole) }, contract.RaftRole, trust.ProcessNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.change != nil {
				c.change(w)
			}
			if got := w.evidence(t, c.role); got.Process != c.want {
				t.Errorf("process %v, want %v", got.Process, c.want)
			}
		})
	}
}

func TestWhatIsMountedCountsUntilItIsWhatIsPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.evidence(t, contract.ReplicationListener).Mounted; got != nil {
		t.Errorf("mounted %+v, want nothing besides what is published", got)
	}
	w.publish(4, id(w.outgoing.Certificate()), id(w.incoming.Certificate()))
	for _, role := range []publication.Role{contract.ReplicationListener, contract.RaftRole} {
		want := []trust.Stores{{
			Trust:    []trust.AnchorID{evidence.AnchorID(w.outgoing.Certificate())},
			Identity: trust.Identity{Signer: key(w.outgoing.Certificate())},
		}}
		if diff := cmp.Diff(want, w.evidence(t, role).Mounted); diff != "" {
			t.Errorf("%s has mounted (-want +got):\n%s", role, diff)
		}
	}
}

func TestWhatAServerWasToldToLoadCountsUntilItIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := w.node.Published
	told.Revision--
	told.Trust = map[publication.Role][]string{contract.ReplicationListener: {id(w.incoming.Certificate())}, contract.ControlPlaneListener: {id(w.incoming.Certificate())}}
	w.node.Report.Loading = []publication.Publication{told, w.node.Published}

	for _, role := range []publication.Role{contract.ReplicationListener, contract.ControlPlaneListener} {
		loading := w.evidence(t, role).Loading
		if len(loading) != 1 || !slices.Equal(loading[0].Trust, []trust.AnchorID{evidence.AnchorID(w.incoming.Certificate())}) {
			t.Errorf("%s may come to hold %+v, want what it was told before alone", role, loading)
		}
	}
	for _, role := range []publication.Role{contract.RaftRole, publication.AgentRole} {
		if loading := w.evidence(t, role).Loading; len(loading) > 0 {
			t.Errorf("%s may come to hold %+v, and no reload changes it", role, loading)
		}
	}
}

func TestAListenerThatNobodyCouldLookAtIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.node.Report.Roles, contract.ReplicationListener)
	if got := w.evidence(t, contract.ReplicationListener).Process; got != trust.ProcessNone {
		t.Errorf("a listener that the server was not started with: %q, want no process", got)
	}
	w.node.Report.Unknown = []publication.Role{contract.ReplicationListener}
	if got := w.evidence(t, contract.ReplicationListener).Process; got != trust.ProcessUnknown {
		t.Errorf("a listener that nobody could look at: %q, want unknown", got)
	}
}

func TestARaftClientIsPublishedWhatTheNodeStartsWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node.Published.Trust[contract.RaftRole] = []string{"narrow"}
	if diff := cmp.Diff([]trust.AnchorID{"narrow"}, w.member(t).Published.Late); diff != "" {
		t.Errorf("control (-want +got):\n%s", diff)
	}
}

func TestARaftClientHoldsUntilTheFirstEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		anchor, crosses time.Duration
		want            time.Duration
	}{
		"its leaf":                              {anchor: 24 * time.Hour, crosses: 24 * time.Hour, want: time.Hour},
		"the only anchor it trusts":             {anchor: time.Minute, crosses: 24 * time.Hour, want: time.Minute},
		"its leaf, after what was sent with it": {anchor: 24 * time.Hour, crosses: time.Minute, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.publishAnchorFor(t, c.anchor)
			w.load()
			raft := w.node.Report.Roles[contract.RaftRole]
			raft.NotAfter = now().Add(c.crosses)
			w.node.Report.Roles[contract.RaftRole] = raft
			if got := w.evidence(t, contract.RaftRole).HeldUntil; !got.Equal(now().Add(c.want)) {
				t.Errorf("held until %v, want %v", got, now().Add(c.want))
			}
		})
	}
}

func TestAStartGivesUntilTheFirstEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ anchor, want time.Duration }{
		"the leaf in the Secret":            {anchor: 24 * time.Hour, want: time.Hour},
		"the only anchor that is published": {anchor: time.Minute, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.publishAnchorFor(t, c.anchor)
			if got := w.member(t).LastsUntil; !got.Equal(now().Add(c.want)) {
				t.Errorf("lasts until %v, want %v", got, now().Add(c.want))
			}
		})
	}
}

func TestARaftClientHoldsNoLongerThanTheIntermediateBelowItsAnchor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		intermediate time.Duration
		isKnown      bool
		want         time.Duration
	}{
		"it ends before the leaf":                        {30 * time.Minute, false, 30 * time.Minute},
		"it ends after the leaf":                         {20 * time.Hour, false, time.Hour},
		"it ends before the leaf, and is trusted itself": {30 * time.Minute, true, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			long := pkitest.Changed(t, w.outgoing, ca(t, "issuing"), func(*x509.Certificate) {})
			intermediate := pkitest.Changed(t, w.outgoing, long, func(cert *x509.Certificate) { cert.NotAfter = now().Add(c.intermediate) })
			if c.isKnown {
				w.domain.Authority.Published = append(w.domain.Authority.Published, long.Certificate())
			}
			w.present(leaf(t, long), intermediate.Certificate())
			w.publish(4, id(w.outgoing.Certificate()))
			w.load()
			s := w.snapshotOf(evidence.Cluster{Now: now(), Nodes: []evidence.Node{w.node}, Policy: trust.Policy{Issuance: trust.Offered}})
			member := s.Members[slices.IndexFunc(s.Members, func(m trust.Member) bool { return m.ID == "my-dual-0" })]
			raft := member.Roles[slices.IndexFunc(member.Roles, func(r trust.Role) bool { return r.Name == string(contract.RaftRole) })]
			if got, want := raft.Evidence.HeldUntil, now().Add(c.want); !got.Equal(want) || !member.LastsUntil.Equal(want) {
				t.Errorf("held until %v, and until %v from its next start, want %v", got, member.LastsUntil, want)
			}
		})
	}
}

// publishAnchorFor publishes one anchor, which lasts that long, for everybody to trust.
func (w *world) publishAnchorFor(t *testing.T, validity time.Duration) {
	t.Helper()
	made, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "another"}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: validity, Now: now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	anchor := made.Certificate()
	w.domain.Stored = append(w.domain.Stored, authority.Anchor{Certificate: anchor, State: trust.TrustedUnused})
	w.publish(4, id(anchor))
}

func TestTheOperatorIsAMemberOfTheClusterCAsDomainOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	has := func(s trust.Snapshot) bool {
		for _, m := range s.Members {
			if m.Kind == trust.Operator {
				return true
			}
		}
		return false
	}
	if !has(w.snapshot()) {
		t.Error("the operator is no member of the domain of the cluster CA")
	}
	w.domain.Name = contract.ClientsDomain
	if has(w.snapshot()) {
		t.Error("the operator is a member of the domain of the clients CA")
	}
}

func TestNobodyVouchesForUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.domain.Name = contract.ClientsDomain
	s := w.snapshotOf(evidence.Cluster{Now: now(), Nodes: []evidence.Node{w.node}, Policy: trust.Policy{Lead: time.Hour}})
	for _, anchor := range s.Anchors {
		if len(anchor.Cross) > 0 || anchor.NoCross == "" {
			t.Errorf("anchor %s has cross certificates %+v (%s), which no user sends", anchor.ID, anchor.Cross, anchor.NoCross)
		}
	}
	if s.Policy.Lead != 0 {
		t.Errorf("a lead of %s is waited for, and no application verifies users", s.Policy.Lead)
	}
}

// What a node costs in each pass, in the middle of a replacement.
func BenchmarkSnapshot(b *testing.B) {
	w := newWorld(b)
	w.present(leaf(b, w.incoming), w.cross)
	w.publish(4, id(w.outgoing.Certificate()), id(w.incoming.Certificate()))
	w.load()
	for b.Loop() {
		w.snapshot()
	}
}
