package roles

import (
	"slices"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Of are the roles of a node with these stores: its listeners, its Raft client and its
// agent. Its server listens on some of the stores; that of the control plane every node has
// for its Raft client, which keeps what its process was started with.
func Of(stores, listening []publication.Store) []evidence.Role {
	var all []evidence.Role
	for _, store := range stores {
		if store.Role != contract.ControlPlaneListener {
			all = append(all, evidence.Role{Store: store, Plane: Data()})
			continue
		}
		if slices.Contains(listening, store) {
			all = append(all, evidence.Role{
				Store: store, Plane: Control(), Starts: []publication.Role{contract.RaftRole}, Always: true,
			})
		}
		all = append(all, raftClient(store))
	}
	return append(all, Agent())
}

// Agent is the role of an agent: of a node's, and of those of companions, which have no other.
func Agent() evidence.Role {
	return evidence.Role{
		Store: publication.Store{Role: publication.AgentRole, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
		Plane: Data(), Loads: evidence.WhenMounted,
	}
}

// raftClient is the client of the control plane. It is started with what the listener's
// store holds, unless a publication names something else for it.
func raftClient(store publication.Store) evidence.Role {
	store.Role = contract.RaftRole
	return evidence.Role{
		Store: store, Plane: Raft(), Always: true,
		Starts: []publication.Role{contract.RaftRole, contract.ControlPlaneListener},
	}
}
