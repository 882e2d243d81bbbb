package agent_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload/reloadtest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// TestServerFulfilsTheContractOfReloads holds a real server to what tests of reloads
// take for granted. Its agent is told to leave it alone.
func TestServerFulfilsTheContractOfReloads(t *testing.T) {
	t.Parallel()
	for version, network := range eachVersion("127.87") {
		t.Run("Kafka "+version, func(t *testing.T) {
			t.Parallel()
			reloadtest.Run(t, func(t *testing.T) reloadtest.Subject {
				t.Helper()
				return leftAlone(t, rotate(t, version, agenttest.ClusterSpec{
					Network: network, Nodes: [][]string{dual()}, Extra: []publication.Role{agenttest.OpenListener},
				}))
			})
		})
	}
}

// leftAlone is the only node of a cluster, whose agent reloads nothing and deletes no
// setting that it has not made.
func leftAlone(t *testing.T, r *rotation) reloadtest.Subject {
	t.Helper()
	n, files := r.Nodes[0], t.TempDir()
	r.publish(t, r.old, agenttest.Wish{Cluster: r.before(), Loading: publication.LoadByRestart})
	internal := reloadtest.Stores{Identity: n.Identity, Trusts: r.before()}
	clients := reloadtest.Stores{Identity: n.Identity, Trusts: []*x509.Certificate{r.Clients.Certificate()}}
	return reloadtest.Subject{
		Server:  n.Client(t),
		Clients: agenttest.TLSListener, Open: agenttest.OpenListener, Internal: contract.ReplicationListener, Control: contract.ControlPlaneListener,
		Started: map[publication.Role]reloadtest.Stores{
			agenttest.TLSListener: clients, agenttest.OpenListener: clients,
			contract.ReplicationListener: internal, contract.ControlPlaneListener: internal,
		},
		Signers: map[publication.Role]pki.Authority{
			agenttest.TLSListener: r.Clients, agenttest.OpenListener: r.Clients,
			contract.ReplicationListener: r.Cluster.Cluster, contract.ControlPlaneListener: r.Cluster.Cluster,
		},
		Names: []string{n.Address},
		Put: func(name string, data []byte) (string, error) {
			location := filepath.Join(files, name)
			half := location + ".new"
			if err := os.WriteFile(half, data, 0o600); err != nil {
				return "", err
			}
			return location, os.Rename(half, location)
		},
		Remove: func(name string) error { return os.Remove(filepath.Join(files, name)) },
		Restart: func(t *testing.T) {
			t.Helper()
			t.Log(n.Stop()) // 143 is how a server ends that was asked to
			n.Start(t)
			r.AwaitReady(t, n)
		},
	}
}
