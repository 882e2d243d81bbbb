package agent_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
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
	n := r.Nodes[0]
	ready := r.watchReadiness(t, n)

	t.Run("a store that the server does not accept changes nothing", func(t *testing.T) {
		before := r.AwaitLoaded(t, n)
		// The new leaf without anybody who trusts it, not even by its chain.
		stranger := agenttest.Leaf(t, r.coming, "my-cluster-kafka", time.Now(), n.Address)
		n.Publish(t, agenttest.Wish{Identity: stranger, Cluster: r.before(), Clients: r.clientAnchors()})
		report := r.Await(t, n, "failed", func(report contract.TLSReport) bool { return report.Reload.Failure != "" })
		if report.Reload.Revision != n.Publication.Revision || !report.Reload.Refused || strings.Contains(report.Reload.Failure, "PRIVATE") {
			t.Errorf("reload %+v, want the server's refusal of revision %d", report.Reload, n.Publication.Revision)
		}
		t.Logf("%s", report.Reload.Failure)
		if report.Revision != before.Revision || report.Roles[contract.ReplicationListener].Presents != r.old[0].Fingerprint() {
			t.Errorf("revision %d, %+v; want what was loaded before", report.Revision, report.Roles[contract.ReplicationListener])
		}
		seen, err := n.Look(t.Context(), contract.ReplicationListener, r.old[0])
		if err != nil || seen.Refused != nil || agenttest.Fingerprints(seen.Chain...)[0] != r.old[0].Fingerprint() {
			t.Errorf("the listener presents %v, %v %v; want the old leaf", agenttest.Fingerprints(seen.Chain...), err, seen.Refused)
		}
	})
	t.Run("a good publication after it is loaded at once", func(t *testing.T) {
		r.publish(t, r.old, agenttest.Wish{Cluster: r.both()})
		report := r.AwaitLoaded(t, n)
		if report.Reload.Failure != "" || report.Reload.Revision != n.Publication.Revision {
			t.Errorf("reload %+v, want success", report.Reload)
		}
	})
	t.Run("two publications at once end with the second", func(t *testing.T) {
		n.Publish(t, agenttest.Wish{Identity: r.old[0], Cluster: r.before(), Clients: r.clientAnchors()})
		r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
	})
	t.Run("a change whose acknowledgement is lost is found to be made", func(t *testing.T) {
		network.armed.Store(true)
		r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Raft: r.both()})
		if network.lost.Load() != 1 {
			t.Errorf("%d acknowledgements were lost, want one", network.lost.Load())
		}
	})
	t.Run("an anchor that was withdrawn comes back", func(t *testing.T) {
		r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
	})
	t.Run("after another start the persisted settings hold", func(t *testing.T) {
		if err := n.Stop(); err == nil {
			t.Error("the server has ended well, want the code of a signal")
		}
		n.Start(t)
		r.AwaitReady(t, n)
		report := r.Await(t, n, "dynamic", func(report contract.TLSReport) bool {
			return report.Roles[contract.ControlPlaneListener].Dynamic && report.Roles[contract.ReplicationListener].Dynamic
		})
		r.compare(t, n, report)
		if raft := report.Roles[contract.RaftRole]; raft.Presents != r.renewed[0].Fingerprint() || len(raft.Trusts) != 2 || raft.Dynamic {
			t.Errorf("the Raft client is said to have %+v, want what is mounted", raft)
		}
	})
	t.Run("settings are deleted when reloads are switched off", func(t *testing.T) {
		r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both(), Loading: contract.LoadByRestart})
		report := r.Await(t, n, "static", func(report contract.TLSReport) bool {
			return !report.Roles[contract.ControlPlaneListener].Dynamic && !report.Roles[contract.ReplicationListener].Dynamic &&
				!report.Roles[agenttest.TLSListener].Dynamic
		})
		r.compare(t, n, report)
	})
	t.Run("with reloads switched off nothing is reloaded", func(t *testing.T) {
		loaded := n.Publication.Revision
		n.Publish(t, agenttest.Wish{Identity: r.renewed[0], Cluster: r.after(), Clients: r.clientAnchors(), Loading: contract.LoadByRestart})
		report := r.Await(t, n, "mounted", func(report contract.TLSReport) bool {
			return report.Mounted != nil && report.Mounted.Revision == n.Publication.Revision
		})
		if report.Revision != loaded || len(report.Roles[contract.ReplicationListener].Trusts) != 2 {
			t.Errorf("revision %d, %+v; want what was loaded before", report.Revision, report.Roles[contract.ReplicationListener])
		}
	})
	ready(t)
}
