package agent_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/publication"
)

// forgetful is a network that can lose the answers to the requests that change
// something, and nothing else.
type forgetful struct {
	armed atomic.Bool
	lost  atomic.Int32
}

func (f *forgetful) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &forgetfulConn{Conn: conn, network: f}, err
}

// forgetfulConn knows a change from other requests although they are encrypted:
// it follows its own validation, and is of the same length.
type forgetfulConn struct {
	net.Conn

	network *forgetful
	last    int
}

func (c *forgetfulConn) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	if len(data) > 0 && len(data) == c.last && c.network.armed.CompareAndSwap(true, false) {
		c.network.lost.Add(1)
		// What has been written arrives, and its answer finds nobody.
		return n, c.Conn.(*net.TCPConn).CloseRead()
	}
	c.last = len(data)
	return n, err
}

// TestReloadThatGoesWrong takes one node that is broker and controller through
// what can go wrong with a reload.
func TestReloadThatGoesWrong(t *testing.T) {
	t.Parallel()
	network := &forgetful{}
	r := rotate(t, newest, agenttest.ClusterSpec{Network: "127.83.23", Nodes: [][]string{dual()}, Dial: network.dial})
	ready := r.watchReadiness(t, r.Nodes[0])
	r.refusedStoreChangesNothing(t)
	r.goodPublicationFollowsAtOnce(t)
	r.secondOfTwoPublicationsIsLoaded(t)
	r.lostAcknowledgementConverges(t, network)
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
	r.restartKeepsWhatWasReloaded(t)
	r.settingsAreDeletedWhenReloadsAreSwitchedOff(t)
	r.nothingIsReloadedAnyMore(t)
	ready(t)
}

func (r *rotation) refusedStoreChangesNothing(t *testing.T) {
	t.Helper()
	n := r.Nodes[0]
	before := r.AwaitLoaded(t, n)
	// The new leaf without anybody who trusts it, not even by its chain.
	stranger := agenttest.Leaf(t, r.coming, "my-cluster-kafka", time.Now(), n.Address)
	n.Publish(t, agenttest.Wish{Identity: stranger, Cluster: r.before(), Clients: r.clientAnchors()})
	report := r.Await(t, n, "failed", func(report publication.Report) bool { return report.Reload.Failure != "" })
	if report.Reload.Revision != n.Publication.Revision || !report.Reload.Refused || strings.Contains(report.Reload.Failure, "PRIVATE") {
		t.Errorf("reload %+v, want the server's refusal of revision %d", report.Reload, n.Publication.Revision)
	}
	if report.Revision != before.Revision || report.Roles[contract.ReplicationListener].Presents != r.old[0].Fingerprint() {
		t.Errorf("revision %d, %+v; want what was loaded before", report.Revision, report.Roles[contract.ReplicationListener])
	}
	seen, err := n.Look(t.Context(), contract.ReplicationListener, r.old[0])
	if err != nil || seen.Refused != nil || agenttest.Fingerprints(seen.Chain...)[0] != r.old[0].Fingerprint() {
		t.Errorf("the listener presents %v, %v %v; want the old leaf", agenttest.Fingerprints(seen.Chain...), err, seen.Refused)
	}
}

func (r *rotation) goodPublicationFollowsAtOnce(t *testing.T) {
	t.Helper()
	r.publish(t, r.old, agenttest.Wish{Cluster: r.both()})
	report := r.AwaitLoaded(t, r.Nodes[0])
	if want := (publication.ReloadReport{Revision: r.Nodes[0].Publication.Revision}); report.Reload != want {
		t.Errorf("reload %+v, want success", report.Reload)
	}
}

func (r *rotation) secondOfTwoPublicationsIsLoaded(t *testing.T) {
	t.Helper()
	r.Nodes[0].Publish(t, agenttest.Wish{Identity: r.old[0], Cluster: r.before(), Clients: r.clientAnchors()})
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
}

func (r *rotation) lostAcknowledgementConverges(t *testing.T, network *forgetful) {
	t.Helper()
	network.armed.Store(true)
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Raft: r.both()})
	if network.lost.Load() != 1 {
		t.Errorf("%d acknowledgements were lost, want one", network.lost.Load())
	}
}

// restartKeepsWhatWasReloaded restarts every node: persisted settings win over
// what it is started with, and the Raft client has what is mounted now.
func (r *rotation) restartKeepsWhatWasReloaded(t *testing.T) {
	t.Helper()
	for _, n := range r.Nodes {
		if err := n.Stop(); err == nil {
			t.Error("the server has ended well, want the code of a signal")
		}
		n.Start(t)
	}
	for _, n := range r.Nodes {
		r.AwaitReady(t, n)
		report := r.Await(t, n, "running on its persisted settings", func(report publication.Report) bool {
			return !slices.ContainsFunc(listeners(n), func(l publication.Role) bool {
				return l != agenttest.TLSListener && !report.Roles[l].Dynamic
			})
		})
		r.compare(t, n, report)
		want, named := n.Publication.Trust[contract.RaftRole]
		if !named {
			want = n.Publication.Trust[contract.ControlPlaneListener]
		}
		raft := report.Roles[contract.RaftRole]
		if raft.Presents != n.Identity.Fingerprint() || !slices.Equal(raft.Trusts, want) || raft.Dynamic {
			t.Errorf("the Raft client is said to have %+v, want what is mounted", raft)
		}
	}
}

func (r *rotation) settingsAreDeletedWhenReloadsAreSwitchedOff(t *testing.T) {
	t.Helper()
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both(), Loading: publication.LoadByRestart})
	for _, n := range r.Nodes {
		for _, l := range listeners(n) {
			if role := r.AwaitLoaded(t, n).Roles[l]; role.Dynamic {
				t.Errorf("%s is said to have %+v, want no dynamic settings", l, role)
			}
		}
	}
}

func (r *rotation) nothingIsReloadedAnyMore(t *testing.T) {
	t.Helper()
	n := r.Nodes[0]
	loaded := n.Publication.Revision
	n.Publish(t, agenttest.Wish{Identity: r.renewed[0], Cluster: r.after(), Clients: r.clientAnchors(), Loading: publication.LoadByRestart})
	report := r.Await(t, n, "mounted", func(report publication.Report) bool {
		return report.Mounted != nil && report.Mounted.Revision == n.Publication.Revision
	})
	if report.Revision != loaded || len(report.Roles[contract.ReplicationListener].Trusts) != 2 {
		t.Errorf("revision %d, %+v; want what was loaded before", report.Revision, report.Roles[contract.ReplicationListener])
	}
}

// foreign is a dynamic setting that has nothing to do with reloads.
const foreign = "log.cleaner.threads"

// keepsForeign fails if the node has dropped the dynamic setting of somebody else.
func (r *rotation) keepsForeign(t *testing.T) {
	t.Helper()
	settings, err := r.Nodes[0].Client(t).Settings(t.Context(), []string{foreign})
	if err != nil || settings[foreign].Effective != "2" {
		t.Errorf("the server runs on %s = %+v, %v; want what was set before its start", foreign, settings[foreign], err)
	}
}

// TestNodeIsRestartedInEveryPhase moves one node from one authority to another
// that no cross certificate joins. Kafka verifies persisted settings against
// those it is started with, and drops them all if they do not belong together.
func TestNodeIsRestartedInEveryPhase(t *testing.T) {
	t.Parallel()
	r := rotate(t, newest, agenttest.ClusterSpec{Network: "127.83.24", Nodes: [][]string{dual()}})
	for i := range r.renewed {
		r.renewed[i].Chain = r.renewed[i].Chain[:1]
	}
	if err := r.Nodes[0].Client(t).Alter(t.Context(), []local.Change{{Name: foreign, Value: new("2")}}); err != nil {
		t.Fatal(err)
	}
	r.publish(t, r.old, agenttest.Wish{Cluster: r.both()})
	r.restartKeepsWhatWasReloaded(t)
	r.keepsForeign(t)
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
	r.restartKeepsWhatWasReloaded(t)
	r.keepsForeign(t)
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Raft: r.both()})
	r.restartKeepsWhatWasReloaded(t)
	r.keepsForeign(t)
	r.refuses(t, r.old[0])
}

// TestControllersThatDoNotLeadReload reloads a quorum of controllers, and starts
// it again: until a quorum has a leader nobody knows the settings in its
// metadata, and listeners have what they were started with.
func TestControllersThatDoNotLeadReload(t *testing.T) {
	t.Parallel()
	r := rotate(t, newest, agenttest.ClusterSpec{Network: "127.83.25", Nodes: [][]string{controller(), controller(), controller()}})
	r.publish(t, r.old, agenttest.Wish{Cluster: r.both()})
	r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Raft: r.both()})
	for _, n := range r.Nodes {
		t.Log(n.Stop())
	}
	alone := r.Nodes[0]
	alone.Start(t)
	r.AwaitReady(t, alone)
	report := r.Await(t, alone, "known", func(report publication.Report) bool {
		return report.Roles[contract.ControlPlaneListener].Presents != ""
	})
	if got := report.Roles[contract.ControlPlaneListener]; len(got.Trusts) != 2 || got.Dynamic {
		t.Errorf("without a leader the listener is said to have %+v, want what it was started with", got)
	}
	if seen, err := alone.Look(t.Context(), contract.ControlPlaneListener, r.renewed[0]); err != nil || len(seen.Authorities) != 2 {
		t.Errorf("without a leader the listener accepts %d authorities, %v; want those it was started with", len(seen.Authorities), err)
	}
	for _, n := range r.Nodes[1:] {
		n.Start(t)
	}
	for _, n := range r.Nodes {
		r.compare(t, n, r.Await(t, n, "running on its persisted settings", func(report publication.Report) bool {
			return report.Roles[contract.ControlPlaneListener].Dynamic && report.Revision == n.Publication.Revision
		}))
	}
}
