package roles_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// given is trust in two cluster CAs and one clients CA.
func given() roles.Decided {
	cluster := []trust.AnchorID{"cluster", "cluster before"}
	return roles.Decided{
		Cluster: trust.Publication{Main: cluster, Late: cluster},
		Clients: trust.Publication{Main: []trust.AnchorID{"clients"}},
	}
}

func TestTrustIsGivenByPlane(t *testing.T) {
	t.Parallel()
	node := []publication.Store{
		{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
		{Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
	}
	narrowed := given()
	narrowed.Cluster.Late = []trust.AnchorID{"cluster"}
	for name, c := range map[string]struct {
		kept     []trust.AnchorID
		previous []string
		control  []string
		raft     []string
	}{
		"the Raft client starts with what its listener accepts": {control: []string{"cluster"}},
		"a listener keeps what the node starts without": {
			kept: []trust.AnchorID{"old"}, previous: []string{"cluster", "old"},
			control: []string{"cluster", "old"}, raft: []string{"cluster"},
		},
		"what it never accepted cannot be kept": {
			kept: []trust.AnchorID{"old"}, previous: []string{"cluster"}, control: []string{"cluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			narrowed := narrowed
			narrowed.Kept = c.kept
			got := roles.Trust(node, narrowed, c.previous)
			if diff := cmp.Diff(c.control, got[contract.ControlPlaneListener]); diff != "" {
				t.Errorf("controller listener (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.raft, got[contract.RaftRole]); diff != "" {
				t.Errorf("Raft client (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"cluster", "cluster before"}, got[contract.ReplicationListener]); diff != "" {
				t.Errorf("data plane (-want +got):\n%s", diff)
			}
		})
	}
}
