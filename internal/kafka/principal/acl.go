package principal

import (
	"cmp"
	"slices"
	"strings"
)

// ResourceType is what an ACL is about. Its values are those of Kafka's protocol, as are all codes of this file: an
// ACL with a code that is unknown here can be compared and deleted all the same.
type ResourceType int8

// The types of resources.
const (
	Topic           ResourceType = 2
	Group           ResourceType = 3
	Cluster         ResourceType = 4
	TransactionalID ResourceType = 5
)

// Pattern says which resources a name stands for.
type Pattern int8

// The patterns.
const (
	Literal  Pattern = 3
	Prefixed Pattern = 4
)

// Operation is what an ACL allows or denies.
type Operation int8

// The operations.
const (
	All             Operation = 2
	Read            Operation = 3
	Write           Operation = 4
	Create          Operation = 5
	Delete          Operation = 6
	Alter           Operation = 7
	Describe        Operation = 8
	ClusterAction   Operation = 9
	DescribeConfigs Operation = 10
	AlterConfigs    Operation = 11
	IdempotentWrite Operation = 12
)

// Permission says whether an ACL allows or denies.
type Permission int8

// The permissions. Deny comes first in order: of ACLs that are created together it is not the last.
const (
	Deny  Permission = 2
	Allow Permission = 3
)

// ClusterName is the name of the one resource of type Cluster.
const ClusterName = "kafka-cluster"

// AnyHost is the host of an ACL that does not care where a user connects from.
const AnyHost = "*"

// ACL is one rule of Kafka's authorizer, without the principal that it is about.
type ACL struct {
	Type       ResourceType
	Name       string
	Pattern    Pattern
	Host       string
	Operation  Operation
	Permission Permission
}

// Sorted returns ACLs in order, each once.
func Sorted(acls []ACL) []ACL {
	sorted := slices.Clone(acls)
	slices.SortFunc(sorted, compare)
	return slices.Compact(sorted)
}

func compare(a, b ACL) int {
	return cmp.Or(
		cmp.Compare(a.Permission, b.Permission), cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Operation, b.Operation), strings.Compare(a.Host, b.Host),
	)
}

// without returns the ACLs that are not among the others.
func without(acls, others []ACL) []ACL {
	known := make(map[ACL]bool, len(others))
	for _, acl := range others {
		known[acl] = true
	}
	return slices.DeleteFunc(slices.Clone(acls), func(acl ACL) bool { return known[acl] })
}
