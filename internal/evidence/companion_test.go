package evidence_test

import (
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// companionOf is a companion that is given what the node of the world is, and has
// loaded it.
func companionOf(w *world) evidence.Companion {
	return evidence.Companion{
		Name: "my-exporter", Published: w.node.Published, Presents: w.node.Presents,
		Pods: []evidence.Pod{{Name: "my-exporter-x", State: evidence.Running, Report: w.node.Report, Since: w.node.Since}},
	}
}

func snapshotWith(w *world, c evidence.Companion) trust.Snapshot {
	cluster := evidence.Cluster{Now: now(), Own: contract.ClusterDomain, Agents: roles.Agent(), Nodes: []evidence.Node{w.node}, Companions: []evidence.Companion{c}}
	return w.snapshotOf(cluster)
}

func companionIn(s trust.Snapshot) (trust.Member, bool) {
	i := slices.IndexFunc(s.Members, func(m trust.Member) bool { return m.Kind == trust.Companion })
	if i < 0 {
		return trust.Member{}, false
	}
	return s.Members[i], true
}

func TestEachPodOfACompanionIsARole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := companionOf(w)
	c.Restarts = true
	c.Pods = append(c.Pods, evidence.Pod{Name: "my-exporter-y", State: evidence.Unknown}, evidence.Pod{Name: "my-exporter-z", State: evidence.Absent})

	m, found := companionIn(snapshotWith(w, c))

	if !found || m.ID != "my-exporter" || !m.Restarts || m.Published.Identity.Signer != key(w.outgoing.Certificate()) || len(m.Published.Main) != 1 {
		t.Fatalf("member %+v, want the companion with what is published to it", m)
	}
	want := map[string]trust.Process{
		"my-exporter-x": trust.ProcessRunning, "my-exporter-y": trust.ProcessUnknown, "my-exporter-z": trust.ProcessNone,
	}
	for _, r := range m.Roles {
		if r.Evidence.Process != want[r.Name] || r.Plane != roles.Data() || !r.Verifies || !r.Presents {
			t.Errorf("role %+v, want process %q", r, want[r.Name])
		}
		delete(want, r.Name)
	}
	if len(want) > 0 {
		t.Errorf("no roles of %v", want)
	}
	if loaded := m.Roles[0].Evidence.Loaded; loaded.Identity.Signer != key(w.outgoing.Certificate()) || len(loaded.Trust) != 1 {
		t.Errorf("loaded %+v, want what the pod has reported", loaded)
	}
}

func TestACompanionWithoutPodsWillLoadWhatItFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := companionOf(w)
	c.Pods = nil
	m, found := companionIn(snapshotWith(w, c))
	if !found || len(m.Roles) != 1 || m.Roles[0].Evidence.Process != trust.ProcessNone {
		t.Errorf("member %+v, want one role that is proven to have no process", m)
	}
}

func TestWhatACompanionHoldsIsKnownAlthoughNoSecretHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := ca(t, "gone").Certificate()
	c := companionOf(w)
	c.Pods[0].Report.Roles = map[publication.Role]publication.RoleReport{publication.AgentRole: {Trusts: []string{id(gone)}}}
	c.Pods[0].Report.Certificates = map[string][]byte{id(gone): gone.Raw}
	c.Pods[0].Given = map[publication.Domain][]string{contract.ClusterDomain: {id(gone)}}
	known := slices.ContainsFunc(snapshotWith(w, c).Anchors, func(a trust.Anchor) bool { return a.ID == evidence.AnchorID(gone) })
	if !known {
		t.Error("an anchor that only a companion holds is not known")
	}
}

func TestCompanionsHaveNothingToDoWithTheClientsCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.domain.Name = contract.ClientsDomain
	if m, found := companionIn(snapshotWith(w, companionOf(w))); found {
		t.Errorf("member %+v of the domain of the clients CA", m)
	}
}
