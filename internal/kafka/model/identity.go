package model

import (
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Organization is the O of every certificate that belongs to the cluster's own
// machinery, and of none that belongs to a user.
const Organization = "io.strimzi"

// CommonName is the common name of all node certificates of the cluster. It is
// the same for all nodes, because super users are named by it.
func (c Cluster) CommonName() string { return c.Names.Kafka() }

// SANs are the DNS names in the certificate of a node, in the order of Strimzi:
// the names of the two Services, then those of the pod.
func (c Cluster) SANs(node Node) []string {
	host := c.Names.PodHost(node.Pod)
	names := c.Names.serviceHosts(c.Names.BootstrapService())
	names = append(names, c.Names.serviceHosts(c.Names.BrokersService())...)
	return append(names, host, c.Names.withDomain(host))
}

// AdvertisedHost is the name by which a node is told to clients of a listener. A
// certificate of the user's for the listener has to cover it for every broker.
func (c Cluster) AdvertisedHost(node Node) string { return c.Names.PodHost(node.Pod) }

// Stores lists the TLS listeners of a node with what each presents and trusts,
// sorted by listener.
//
// The control plane is among them on every node: a broker without the role
// controller does not listen there, but its Raft client speaks with that
// identity. A listener that asks for no client certificate has a trust store
// too, so that one can be asked for by a reload.
func (c Cluster) Stores(node Node) []publication.Store {
	stores := []publication.Store{{Role: ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain}}
	if node.Roles.Broker {
		stores = append(stores, publication.Store{Role: ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain})
		for _, listener := range c.Listeners {
			if listener.TLS {
				stores = append(stores, listener.store())
			}
		}
	}
	return sortStores(stores)
}

func (l Listener) store() publication.Store {
	identity := publication.NodeIdentity
	if l.Certificate != nil {
		identity = string(l.Key())
	}
	return publication.Store{Role: l.Key(), Identity: identity, Trust: contract.ClientsDomain}
}

func sortStores(stores []publication.Store) []publication.Store {
	slices.SortFunc(stores, func(a, b publication.Store) int { return strings.Compare(string(a.Role), string(b.Role)) })
	return stores
}
