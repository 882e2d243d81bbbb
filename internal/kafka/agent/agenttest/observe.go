package agenttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// KafkaHomes names the installations of Kafka that tests may use: directories
// with jars in libs, separated by colons.
const KafkaHomes = "KEYTURN_KAFKA_HOMES"

// KafkaHome returns the installation of the version. The test is skipped when
// there is none.
func KafkaHome(tb testing.TB, version string) string {
	tb.Helper()
	for _, home := range filepath.SplitList(os.Getenv(KafkaHomes)) {
		if jars, err := filepath.Glob(filepath.Join(home, "libs", "kafka_*-"+version+".jar")); err == nil && len(jars) > 0 {
			return home
		}
	}
	tb.Skipf("no Kafka %s in $%s", version, KafkaHomes)
	return ""
}

// Await returns the report of the node's agent once it fulfils the condition.
func (c *Cluster) Await(tb testing.TB, n *Node, what string, condition func(publication.Report) bool) publication.Report {
	tb.Helper()
	agents := c.Agents()
	deadline := time.After(startLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		report, err := agents.TLS(tb.Context(), c.AgentNode(n))
		if err == nil && condition(report) {
			return report
		}
		select {
		case <-deadline:
			tb.Fatalf("node %d: not %s after %s: %+v, %v; its log:\n%s", n.ID, what, startLimit, report, err, n.tail())
		case <-n.ended:
			tb.Fatalf("the agent of node %d ended: %v; its log:\n%s", n.ID, n.err, n.tail())
		case <-tick.C:
		}
	}
}

// AwaitLoaded returns the report of the node's agent once the server has loaded
// what is published.
func (c *Cluster) AwaitLoaded(tb testing.TB, n *Node) publication.Report {
	tb.Helper()
	return c.Await(tb, n, fmt.Sprintf("loaded revision %d", n.Publication.Revision), func(r publication.Report) bool {
		return r.Revision == n.Publication.Revision
	})
}

// Client asks the node's server with the node's own identity.
func (n *Node) Client(tb testing.TB) *local.Client {
	tb.Helper()
	known := local.Known{Leaves: n.leaves, Identities: []tls.Certificate{server.Certificate(n.Identity)}}
	client := local.NewClient(local.Server{
		Host: n.Address, NodeID: n.ID, Roles: n.Roles, Dial: (&net.Dialer{}).DialContext, Now: time.Now, Limit: requestLimit,
		Known: func() local.Known { return known },
	})
	tb.Cleanup(func() { _ = client.Close() }) // nothing is written
	return client
}

// Look shakes hands with a listener of the node.
func (n *Node) Look(ctx context.Context, listener publication.Role, identity stores.Identity) (local.Seen, error) {
	client := local.NewClient(local.Server{
		Host: n.Address, NodeID: n.ID, Dial: (&net.Dialer{}).DialContext, Now: time.Now, Limit: requestLimit,
	})
	return client.Look(ctx, listener, server.Certificate(identity))
}

// Serves connects to a listener as a client that trusts the anchors and nothing
// else, and completes a request.
func (n *Node) Serves(ctx context.Context, listener publication.Role, identity stores.Identity, anchors ...*x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	dialer := mtls.Dialer{
		Dial: (&net.Dialer{}).DialContext, Now: time.Now, Timeout: requestLimit,
		Source: func(context.Context) (mtls.Credentials, error) {
			return mtls.Credentials{Identity: server.Certificate(identity), Anchors: anchors}, nil
		},
	}
	address, err := local.Server{Host: n.Address}.Address(listener)
	if err != nil {
		return err
	}
	raw, err := dialer.Connect(ctx, address, mtls.Peer{Name: n.Address})
	if err != nil {
		return err
	}
	conn := wire.New(raw, "test")
	defer func() { _ = conn.Close() }() // nothing is written
	_, err = conn.Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return mtls.Classify(address, err)
}
