package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// Input is everything a cluster is made from.
type Input struct {
	// Kafka is the resource; it is not changed.
	Kafka *kafkav1.Kafka
	// Pools may hold pools of other clusters; they are left out.
	Pools []kafkav1.KafkaNodePool
	// Settings are the operator's.
	Settings Settings
	// Known is what has been observed of the running cluster; the zero value
	// stands for a cluster that does not exist yet.
	Known Known
}

// Settings are what the operator was started with.
type Settings struct {
	// Versions are the Kafka versions there are images for, in any order. The
	// newest is the default.
	Versions []KafkaVersion
	// AgentImage is the operator's own image, from which pods take the agent.
	AgentImage string
	// PullPolicy for all images of pods; empty leaves it to Kubernetes.
	PullPolicy corev1.PullPolicy
	// PullSecrets are what the images of pods are pulled with where no template has others. Each is there once.
	PullSecrets []corev1.LocalObjectReference
	// ClusterDomain is the DNS domain of the Kubernetes cluster; empty means
	// cluster.local.
	ClusterDomain string
	// NetworkPolicies says how policies let the operator in; nil when none are made.
	NetworkPolicies *NetworkPolicies
}

// Known is what has been observed of a cluster and binds what can be built.
type Known struct {
	// ClusterID is the KRaft cluster id, from the status of the Kafka.
	ClusterID string
	// ClaimedBy are the ids of the clusters whose data claims hold, by the claim's name.
	// One without data, or made before ids were noted on claims, is not among them.
	ClaimedBy map[string]string
	// MetadataVersion is the one the running cluster has finalized; empty when
	// the cluster has not been formed yet or its version is unknown.
	MetadataVersion release.MetadataVersion
	// Pools are the pools that have been built, by name, also those whose
	// KafkaNodePool is gone.
	Pools map[string]KnownPool
	// Voters are the controllers that the quorum was formed with. The quorum is
	// static: no other set of controllers is built. They are to be read with
	// ParseVoters from the configuration of one node, once the first
	// StrimziPodSet exists: one object then says what the whole set is, whatever
	// crashed in between. Empty means the controllers of Pools, which is the same
	// unless the creation of several pools with controllers was interrupted.
	Voters []NodeID
	// Taken are the ids that pods, volumes and Secrets carry which exist, by their
	// pool; the empty name stands for a pool that is not known. Only their own pool
	// may be given them.
	Taken map[string][]NodeID
	// Occupied are nodes that must not be removed yet: they hold partitions or may
	// hold some, or it is not their turn. See Cluster.Leaving.
	Occupied []NodeID
}

// KnownPool is a pool as it was last built.
type KnownPool struct {
	// NodeIDs are the ids in use: nodes that run, that are described, or that are
	// recorded and wait to be described.
	NodeIDs []NodeID
	// Roles are those the nodes run with.
	Roles Roles
	// Storage is the storage the pool was built with, nil when it is not recorded.
	// See ParseStorage.
	Storage *kafkav1.Storage
}

// Roles says which parts a node plays.
type Roles struct {
	Controller bool
	Broker     bool
}

// List names the roles as process.roles and the status of a pool do.
func (r Roles) List() []string {
	names := []string{}
	if r.Controller {
		names = append(names, string(kafkav1.RoleController))
	}
	if r.Broker {
		names = append(names, string(kafkav1.RoleBroker))
	}
	return names
}

// RolesOf reads the roles of a resource. Unknown names are left out.
func RolesOf(roles []kafkav1.ProcessRole) Roles {
	return Roles{
		Controller: slices.Contains(roles, kafkav1.RoleController),
		Broker:     slices.Contains(roles, kafkav1.RoleBroker),
	}
}

// Cluster is a validated Kafka cluster. It is made by Resolve alone.
type Cluster struct {
	// Names derives the names of all objects.
	Names Names
	// ClusterID is Known.ClusterID: empty until the controller has chosen one.
	ClusterID string
	// Version is the Kafka version to run, with the image that pods use.
	Version KafkaVersion
	// Metadata says which metadata version to format with and to aim at.
	Metadata MetadataPlan
	// Pools are sorted by name.
	Pools []Pool
	// Nodes are sorted by id, and are exactly those that shall exist now.
	Nodes []Node
	// Listeners are the user's, sorted by port.
	Listeners []Listener
	// ClusterCACert is what people add to the Secret with the certificate of the cluster
	// CA. It has no keys of the operator.
	ClusterCACert kafkav1.MetadataTemplate
	// Leaving are nodes, or broker roles, that the resources no longer ask
	// for, sorted by id. Those that are named in Known.Occupied are not gone
	// yet: they are among Nodes. All others are left out of Nodes, so the
	// controller has to ask about every one of them first, and resolve again
	// with Known.Occupied, before it applies anything.
	Leaving []Leaving
	// SkipScaleDownCheck is the annotation strimzi.io/skip-broker-scaledown-check:
	// a person takes the loss of partitions on leaving nodes upon them.
	SkipScaleDownCheck bool
	// UserOperator and TopicOperator run beside the nodes, nil when they do not.
	UserOperator  *kafkav1.UserOperator
	TopicOperator *kafkav1.TopicOperator

	config        Properties
	authorization authorization
	labels        map[string]string
	settings      Settings
	owner         Owner
	beside        operatorTemplate
}

// Owner is the Kafka resource that owns what is rendered.
type Owner struct {
	Name string
	UID  types.UID
}

// Leaving is a node, or the broker role of a node, that is not asked for any
// more.
type Leaving struct {
	ID   NodeID
	Pool string
	Pod  string
	// What leaves: the whole node, or only its broker role.
	What LeavingPart
	// Broker is true when the node has the broker role now and thus may hold
	// partitions.
	Broker bool
}

// LeavingPart says how much of a node leaves.
type LeavingPart string

// The parts of a node that can leave.
const (
	LeavingNode       LeavingPart = "node"
	LeavingBrokerRole LeavingPart = "broker role"
)

// Pool is a validated node pool.
type Pool struct {
	// Name of the KafkaNodePool.
	Name string
	// Roles that its nodes play now.
	Roles Roles
	// NodeIDs are sorted.
	NodeIDs []NodeID
	// Volumes are sorted by id.
	Volumes []Volume
	// Storage is what Volumes was made from, to be recorded by EncodeStorage.
	Storage kafkav1.Storage
	// Retired is true for a pool whose KafkaNodePool is gone while some of its
	// nodes are occupied: its nodes keep their certificates and configuration,
	// and its StrimziPodSet is to be left as it is.
	Retired bool

	resources   corev1.ResourceRequirements
	jvmOptions  kafkav1.JvmOptions
	labels      map[string]string
	pullSecrets []corev1.LocalObjectReference
}

// Node is one Kafka node.
type Node struct {
	ID    NodeID
	Pool  string
	Pod   string
	Roles Roles
}

// Pool returns the pool of that name.
func (c Cluster) Pool(name string) (Pool, bool) {
	at := slices.IndexFunc(c.Pools, func(p Pool) bool { return p.Name == name })
	if at < 0 {
		return Pool{}, false
	}
	return c.Pools[at], true
}

// PoolNodes returns the nodes of a pool, sorted by id.
func (c Cluster) PoolNodes(pool string) []Node {
	nodes := []Node{}
	for _, node := range c.Nodes {
		if node.Pool == pool {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Controllers returns the nodes with the controller role, sorted by id.
func (c Cluster) Controllers() []Node {
	nodes := []Node{}
	for _, node := range c.Nodes {
		if node.Roles.Controller {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Brokers returns the nodes with the broker role, sorted by id.
func (c Cluster) Brokers() []Node {
	nodes := []Node{}
	for _, node := range c.Nodes {
		if node.Roles.Broker {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// stayingBrokers counts the brokers that the resources ask for. Those that are
// leaving are not counted: what needs them must be refused before they go.
func (c Cluster) stayingBrokers() int {
	count := 0
	for _, node := range c.Brokers() {
		if !slices.ContainsFunc(c.Leaving, func(l Leaving) bool { return l.ID == node.ID }) {
			count++
		}
	}
	return count
}
