package reload_test

import (
	"path"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload/reloadtest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestFakeFulfilsTheContract(t *testing.T) {
	t.Parallel()
	reloadtest.Run(t, func(t *testing.T) reloadtest.Subject {
		t.Helper()
		const files = "/elsewhere"
		signer := agenttest.Authority(t, "ca v0", time.Now())
		w := &world{roles: []string{contract.RoleBroker, contract.RoleController}}
		started := w.publish(agenttest.Leaf(t, signer, "my-cluster-kafka", time.Now()), signer.Certificate())
		k := newKafka()
		k.start(started.Render(directory))
		s := reloadtest.Subject{
			Server: k, Clients: tlsLow, Open: open, Internal: contract.ReplicationListener, Control: contract.ControlPlaneListener,
			Started: map[publication.Role]reloadtest.Stores{}, Signers: map[publication.Role]pki.Authority{},
			Put: func(name string, data []byte) (string, error) {
				k.files[path.Join(files, name)] = slices.Clone(data)
				return path.Join(files, name), nil
			},
			Remove: func(name string) error {
				delete(k.files, path.Join(files, name))
				return nil
			},
			Restart: func(*testing.T) { k.start(started.Render(directory)) },
		}
		for _, l := range started.Listeners {
			s.Started[l.Name] = reloadtest.Stores{Identity: l.Identity, Trusts: l.Trusts}
			s.Signers[l.Name] = signer
		}
		return s
	})
}
