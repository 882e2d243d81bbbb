package model

import (
	"cmp"
	"maps"
	"slices"
)

// LastKnown is the cluster as it was last, as far as its certificates are concerned:
// names, nodes, listeners, and the labels and annotations that the resources may add, and
// nothing else that the resources wish. It is what is left to go by while the resources cannot be used, since certificates end all the
// same. listeners are those that nodes run with. All pools count as retired: their
// nodes keep the configuration that they have.
func LastKnown(in Input, listeners []Listener) Cluster {
	r := &resolver{in: in}
	cluster := Cluster{
		Names: Names{
			Cluster: in.Kafka.Name, Namespace: in.Kafka.Namespace,
			Domain: cmp.Or(in.Settings.ClusterDomain, defaultClusterDomain),
		},
		ClusterID:     in.Known.ClusterID,
		Listeners:     listeners,
		ClusterCACert: r.resolveClusterCACert(),
		labels:        r.resolveLabels(),
		settings:      in.Settings,
		owner:         Owner{Name: in.Kafka.Name, UID: in.Kafka.UID},
	}
	for _, name := range slices.Sorted(maps.Keys(in.Known.Pools)) {
		known := in.Known.Pools[name]
		pool := Pool{Name: name, Roles: known.Roles, NodeIDs: known.NodeIDs, Retired: true}
		cluster.Pools = append(cluster.Pools, pool)
		for _, id := range pool.NodeIDs {
			cluster.Nodes = append(cluster.Nodes, Node{ID: id, Pool: name, Pod: cluster.Names.Pod(name, id), Roles: pool.Roles})
		}
	}
	slices.SortFunc(cluster.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return cluster
}
