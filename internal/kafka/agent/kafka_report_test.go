package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reporttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// TestAgentFulfilsTheContractOfReports holds an agent beside a real server to what tests
// of the operator take for granted.
func TestAgentFulfilsTheContractOfReports(t *testing.T) {
	t.Parallel()
	for version, network := range eachVersion("127.88") {
		t.Run("Kafka "+version, func(t *testing.T) {
			t.Parallel()
			reporttest.Run(t, func(t *testing.T) reporttest.Subject {
				t.Helper()
				r := rotate(t, version, agenttest.ClusterSpec{Network: network, Nodes: [][]string{dual()}})
				n := r.Nodes[0]
				return reporttest.Subject{
					Report: func(ctx context.Context) (publication.Report, error) { return r.Agents().TLS(ctx, r.AgentNode(n)) },
					Name:   n.Name(), Names: []string{n.Address}, Signer: r.Cluster.Cluster,
					Cluster: []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener}, Clients: agenttest.TLSListener,
					Mounted: n.Mounted,
					Mount:   func(t *testing.T, content stores.Mounted) { t.Helper(); n.Mount(t, content) },
					Work:    func() {},
					Restart: func(t *testing.T) {
						t.Helper()
						t.Log(n.Stop()) // 143 is how a server ends that was asked to
						n.Start(t)
						r.AwaitReady(t, n)
					},
					Now: time.Now,
				}
			})
		})
	}
}
