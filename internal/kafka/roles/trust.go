package roles

import (
	"slices"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// Decided is what trust has decided for one node, of each domain.
type Decided struct {
	Cluster, Clients trust.Publication
	// Kept are anchors that the controller listener goes on accepting although the
	// node is started without them.
	Kept []trust.AnchorID
}

// Trust spreads what a node is given over its roles. previous is what its
// controller listener accepts so far: only that can be kept.
func Trust(stores []publication.Store, given Decided, previous []string) map[publication.Role][]string {
	roles := map[publication.Role][]string{publication.AgentRole: texts(given.Cluster.Main)}
	for _, store := range stores {
		switch {
		case store.Trust == contract.ClientsDomain:
			roles[store.Role] = texts(given.Clients.Main)
		case store.Role == contract.ControlPlaneListener:
			roles[store.Role] = texts(given.Cluster.Late)
			if kept := keep(given.Kept, previous); len(kept) > 0 {
				roles[contract.RaftRole] = roles[store.Role]
				roles[store.Role] = merge(roles[store.Role], kept)
			}
		default:
			roles[store.Role] = texts(given.Cluster.Main)
		}
	}
	return roles
}

func keep(kept []trust.AnchorID, previous []string) []string {
	return slices.DeleteFunc(texts(kept), func(id string) bool { return !slices.Contains(previous, id) })
}

func merge(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

func texts(ids []trust.AnchorID) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out
}
