package agent_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// newest is the version of Kafka that tests run which no version makes a difference to.
const newest = "4.3.1"

// eachVersion are the first and the last patch of each release of Kafka, each with a network for its nodes. networks begins
// those of one test.
func eachVersion(networks string) iter.Seq2[string, string] {
	return func(yield func(version, network string) bool) {
		at := 0
		for _, of := range release.All() {
			for _, version := range slices.Compact([]string{of.Patches[0], of.Patches[len(of.Patches)-1]}) {
				at++
				if !yield(version, fmt.Sprintf("%s.%d", networks, at)) {
					return
				}
			}
		}
	}
}

func broker() []string     { return []string{contract.RoleBroker} }
func controller() []string { return []string{contract.RoleController} }
func dual() []string       { return []string{contract.RoleBroker, contract.RoleController} }

// rotation is a cluster whose cluster authority is replaced.
type rotation struct {
	*agenttest.Cluster

	// coming is the new authority, cross its certificate by the old one.
	coming pki.Authority
	cross  *x509.Certificate
	// old are the leaves that nodes were started with, renewed those of the new
	// authority, by node id.
	old, renewed []stores.Identity
	client       stores.Identity
}

func rotate(t *testing.T, version string, spec agenttest.ClusterSpec) *rotation {
	t.Helper()
	spec.KafkaHome = agenttest.KafkaHome(t, version)
	c := agenttest.Start(t, spec)
	now := time.Now()
	r := &rotation{
		Cluster: c,
		coming:  agenttest.Authority(t, "cluster-ca v1", now),
		client:  agenttest.Leaf(t, c.Clients, "client", now),
	}
	var err error
	if r.cross, err = pki.CrossSign(c.Cluster, r.coming.Certificate(), now); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		leaf := agenttest.Leaf(t, r.coming, "my-cluster-kafka", now, n.Address)
		leaf.Chain = append(leaf.Chain, r.cross)
		r.old, r.renewed = append(r.old, n.Identity), append(r.renewed, leaf)
	}
	return r
}

func (r *rotation) before() []*x509.Certificate {
	return []*x509.Certificate{r.Cluster.Cluster.Certificate()}
}

func (r *rotation) after() []*x509.Certificate { return []*x509.Certificate{r.coming.Certificate()} }
func (r *rotation) both() []*x509.Certificate  { return append(r.before(), r.after()...) }

func (r *rotation) clientAnchors() []*x509.Certificate {
	return []*x509.Certificate{r.Clients.Certificate()}
}

// publish gives all nodes their leaves and the anchors, and waits until they
// have loaded them.
func (r *rotation) publish(t *testing.T, leaves []stores.Identity, wish agenttest.Wish) {
	t.Helper()
	wish.Clients = r.clientAnchors()
	for i, n := range r.Nodes {
		wish.Identity = leaves[i]
		n.Publish(t, wish)
	}
	for _, n := range r.Nodes {
		report := r.AwaitLoaded(t, n)
		r.compare(t, n, report)
	}
}

// listeners are those the node listens on.
func listeners(n *agenttest.Node) []publication.Role {
	var list []publication.Role
	if slices.Contains(n.Roles, contract.RoleController) {
		list = append(list, contract.ControlPlaneListener)
	}
	if slices.Contains(n.Roles, contract.RoleBroker) {
		list = append(list, contract.ReplicationListener, agenttest.TLSListener)
	}
	return list
}

// compare holds a report against handshakes and what was published.
func (r *rotation) compare(t *testing.T, n *agenttest.Node, report publication.Report) {
	t.Helper()
	for _, l := range listeners(n) {
		seen, err := n.Look(t.Context(), l, n.Identity)
		if err != nil {
			t.Fatal(err)
		}
		role := report.Roles[l]
		if diff := cmp.Diff(agenttest.Fingerprints(seen.Chain...), append([]string{role.Presents}, role.Chain...)); diff != "" {
			t.Errorf("node %d, %s presents (-handshake +report):\n%s", n.ID, l, diff)
		}
		if got := n.Publication.Identities[publication.NodeIdentity]; role.Presents != got {
			t.Errorf("node %d, %s presents %s, published is %s", n.ID, l, role.Presents, got)
		}
		if diff := cmp.Diff(n.Publication.Trust[l], role.Trusts); diff != "" {
			t.Errorf("node %d, %s trusts (-published +reported):\n%s", n.ID, l, diff)
		}
		if got, want := len(seen.Authorities), len(role.Trusts); got != want {
			t.Errorf("node %d, %s names %d authorities, and is said to trust %d", n.ID, l, got, want)
		}
		for _, fingerprint := range append([]string{role.Presents}, role.Chain...) {
			if cert, err := x509.ParseCertificate(report.Certificates[fingerprint]); err != nil || agenttest.Fingerprints(cert)[0] != fingerprint {
				t.Errorf("node %d: the certificate %s is not in the report: %v", n.ID, fingerprint, err)
			}
		}
	}
}

// serves fails unless a client that trusts only the anchor is served by every
// broker.
func (r *rotation) serves(t *testing.T, name string, anchor []*x509.Certificate) {
	t.Helper()
	for _, n := range r.Nodes {
		if !slices.Contains(n.Roles, contract.RoleBroker) {
			continue
		}
		if err := n.Serves(t.Context(), agenttest.TLSListener, r.client, anchor...); err != nil {
			t.Errorf("node %d does not serve a client that trusts %s: %v", n.ID, name, err)
		}
	}
}

// refuses fails unless every internal listener of every node refuses the leaf.
func (r *rotation) refuses(t *testing.T, leaf stores.Identity) {
	t.Helper()
	for _, n := range r.Nodes {
		for _, l := range listeners(n) {
			if l == agenttest.TLSListener {
				continue
			}
			err := n.Serves(t.Context(), l, leaf, r.both()...)
			if _, ok := errors.AsType[*mtls.RefusedError](err); !ok {
				t.Errorf("node %d, %s: error %v, want a refusal of the old leaf", n.ID, l, err)
			}
		}
	}
}

// watchReadiness asks the node again and again whether it is ready. The returned
// function ends that, and fails if it was not always once it has been.
func (r *rotation) watchReadiness(t *testing.T, n *agenttest.Node) func(*testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var unready []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			readiness, err := r.Agents().Ready(ctx, r.AgentNode(n))
			if err == nil && readiness.Reason == agent.ReasonUnresponsive {
				unready = append(unready, fmt.Sprint(readiness.WaitingFor))
			}
		}
	}()
	return func(t *testing.T) {
		t.Helper()
		cancel()
		<-done
		if len(unready) > 0 {
			t.Errorf("the node was not ready: %v", unready)
		}
	}
}

// raft is the report of the node's Raft client.
func (r *rotation) raft(t *testing.T, n *agenttest.Node) publication.RoleReport {
	t.Helper()
	report, err := r.Agents().TLS(t.Context(), r.AgentNode(n))
	if err != nil {
		t.Fatal(err)
	}
	return report.Roles[contract.RaftRole]
}

// TestAuthorityIsReplacedWithoutARestart takes a controller and a broker through
// the whole of a replacement.
func TestAuthorityIsReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	for version, network := range eachVersion("127.84") {
		t.Run("Kafka "+version, func(t *testing.T) {
			t.Parallel()
			r := rotate(t, version, agenttest.ClusterSpec{Network: network, Nodes: [][]string{controller(), broker()}})
			started := []publication.RoleReport{r.raft(t, r.Nodes[0]), r.raft(t, r.Nodes[1])}

			r.publish(t, r.old, agenttest.Wish{Cluster: r.both()})
			r.serves(t, "the old authority", r.before())

			r.publish(t, r.renewed, agenttest.Wish{Cluster: r.both()})
			r.serves(t, "the old authority", r.before())
			r.serves(t, "the new authority", r.after())

			r.publish(t, r.renewed, agenttest.Wish{Cluster: r.after(), Raft: r.both()})
			r.serves(t, "the old authority", r.before())
			r.serves(t, "the new authority", r.after())
			r.refuses(t, r.old[1])

			for i, n := range r.Nodes {
				if diff := cmp.Diff(started[i], r.raft(t, n)); diff != "" {
					t.Errorf("the Raft client of node %d (-started +now):\n%s", i, diff)
				}
			}
			if diff := cmp.Diff(started[1], r.AwaitLoaded(t, r.Nodes[1]).Roles[contract.ControlPlaneListener]); diff != "" {
				t.Errorf("the control plane of the broker, which does not listen there (-Raft client +report):\n%s", diff)
			}
		})
	}
}
