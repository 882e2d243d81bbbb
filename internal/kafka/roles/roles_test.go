package roles_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestEveryNodeHasAnAgentAndARaftClientAndListensWhereItsRolesSay(t *testing.T) {
	t.Parallel()
	control := publication.Store{Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain}
	clients := publication.Store{Role: "tls-9093", Identity: "tls-9093", Trust: contract.ClientsDomain}
	started := control
	started.Role = contract.RaftRole
	raft := evidence.Role{
		Store: started, Plane: roles.Raft(), Always: true,
		Starts: []publication.Role{contract.RaftRole, contract.ControlPlaneListener},
	}
	agent := evidence.Role{
		Store: publication.Store{Role: publication.AgentRole, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
		Plane: roles.Data(), Loads: evidence.WhenMounted,
	}
	listens := evidence.Role{Store: control, Plane: roles.Control(), Starts: []publication.Role{contract.RaftRole}, Always: true}
	for name, c := range map[string]struct {
		stores, listening []publication.Store
		want              []evidence.Role
	}{
		"a controller": {
			stores: []publication.Store{control}, listening: []publication.Store{control},
			want: []evidence.Role{listens, raft, agent},
		},
		"a broker": {
			stores: []publication.Store{control, clients}, listening: []publication.Store{clients},
			want: []evidence.Role{raft, {Store: clients, Plane: roles.Data()}, agent},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, roles.Of(c.stores, c.listening)); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
		})
	}
}
