package adminfake

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Ports and levels of a new cluster.
const (
	replicationPort = 9091
	newestLevel     = 30
)

// Node is a member of the cluster.
type Node struct {
	ID                 int32
	Broker, Controller bool
}

// Dual returns nodes with both roles and the ids.
func Dual(ids ...int32) []Node {
	nodes := make([]Node, 0, len(ids))
	for _, id := range ids {
		nodes = append(nodes, Node{ID: id, Broker: true, Controller: true})
	}
	return nodes
}

// Cluster is the cluster. It is safe for concurrent use.
type Cluster struct {
	now func() time.Time

	mu         sync.Mutex
	id         string
	nodes      map[int32]*node
	leader     int32
	epoch      int32
	log        int64
	partitions []admin.Partition
	configs    map[string]map[string]string
	level      int16
	supported  int16
	failure    error
	acts       []string
}

type node struct {
	Node

	up         bool
	registered bool
	// caughtUp is when the voter was last level with the leader; zero means now.
	caughtUp time.Time
	end      int64
}

// New makes a cluster whose nodes are all up. The smallest controller leads.
func New(id string, now func() time.Time, nodes ...Node) *Cluster {
	c := &Cluster{id: id, now: now, nodes: map[int32]*node{}, configs: map[string]map[string]string{}, leader: -1, log: 100, level: newestLevel, supported: newestLevel}
	for _, n := range nodes {
		c.nodes[n.ID] = &node{Node: n, up: true, registered: n.Broker}
	}
	c.elect()
	return c
}

// Start brings a node up, a new one included: registered, in sync everywhere,
// level with the leader.
func (c *Cluster) Start(n Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[n.ID] = &node{Node: n, up: true, registered: n.Broker}
	for i := range c.partitions {
		c.rejoin(&c.partitions[i], n.ID)
	}
	if c.leader < 0 {
		c.elect()
	}
}

// Stop takes a node down: fenced, out of every in-sync set in which it is not
// the last, no longer leading, and from now on falling behind.
func (c *Cluster) Stop(id int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, found := c.nodes[id]
	if !found {
		return fmt.Errorf("node %d does not exist", id)
	}
	n.up, n.caughtUp, n.end = false, c.now(), c.log
	c.log += 10
	for i := range c.partitions {
		c.leave(&c.partitions[i], id)
	}
	if c.leader == id {
		c.elect()
	}
	return nil
}

// Lag lets a voter that is up fall behind the leader for the duration; zero lets
// it catch up.
func (c *Cluster) Lag(id int32, behind time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	n.caughtUp = time.Time{}
	if behind > 0 {
		n.caughtUp, n.end = c.now().Add(-behind), c.log-1
	}
}

// Lead makes a controller the leader of the quorum; -1 leaves it without one.
func (c *Cluster) Lead(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = id
	c.epoch++
}

// CreateTopic spreads partitions over the brokers that are up.
func (c *Cluster) CreateTopic(name string, partitions, replication, minInSync int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	brokers := c.ids(func(n *node) bool { return n.Broker && n.up })
	if replication > len(brokers) {
		return fmt.Errorf("topic %s: %d replicas on %d brokers", name, replication, len(brokers))
	}
	for p := range partitions {
		replicas := make([]int32, 0, replication)
		for r := range replication {
			replicas = append(replicas, brokers[(p+r)%len(brokers)])
		}
		c.partitions = append(c.partitions, admin.Partition{
			Topic: name, Partition: int32(p), Leader: replicas[0], MinInSync: minInSync,
			Replicas: slices.Sorted(slices.Values(replicas)), InSync: slices.Sorted(slices.Values(replicas)),
		})
	}
	c.configs[name] = map[string]string{topics.MinInSync: strconv.Itoa(minInSync)}
	return nil
}

// Configure sets a property of a topic.
func (c *Cluster) Configure(topic, key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.configs[topic][key] = value
}

// Reassign moves a partition to the brokers, all of them in sync.
func (c *Cluster) Reassign(topic string, partition int32, brokers ...int32) {
	c.change(topic, partition, func(p *admin.Partition) {
		p.Replicas = slices.Sorted(slices.Values(brokers))
		p.InSync, p.Leader = slices.Clone(p.Replicas), p.Replicas[0]
	})
}

// SetInSync says which copies of a partition are in sync.
func (c *Cluster) SetInSync(topic string, partition int32, brokers ...int32) {
	c.change(topic, partition, func(p *admin.Partition) {
		p.InSync = slices.Sorted(slices.Values(brokers))
	})
}

func (c *Cluster) change(topic string, partition int32, to func(*admin.Partition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.partitions {
		if p := &c.partitions[i]; p.Topic == topic && p.Partition == partition {
			to(p)
		}
	}
}

// SetMetadataVersion says which level is finalized and which is the highest that
// all nodes support.
func (c *Cluster) SetMetadataVersion(level, supported int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level, c.supported = level, supported
}

// Fail makes every request fail with the error; nil ends that.
func (c *Cluster) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// Acts returns what was changed through clients, one line each, in order.
func (c *Cluster) Acts() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.acts)
}

func (c *Cluster) elect() {
	c.leader = -1
	voters := c.ids(func(n *node) bool { return n.Controller })
	up := c.ids(func(n *node) bool { return n.Controller && n.up })
	if len(up) > len(voters)/2 {
		c.leader = up[0]
		c.epoch++
	}
}

func (c *Cluster) leave(p *admin.Partition, id int32) {
	if len(p.InSync) > 1 {
		p.InSync = slices.DeleteFunc(p.InSync, func(other int32) bool { return other == id })
	}
	if p.Leader != id {
		return
	}
	p.Leader = -1
	if i := slices.IndexFunc(p.InSync, func(other int32) bool { return c.nodes[other].up }); i >= 0 {
		p.Leader = p.InSync[i]
	}
}

func (c *Cluster) rejoin(p *admin.Partition, id int32) {
	if !slices.Contains(p.Replicas, id) {
		return
	}
	p.InSync = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(p.InSync), id))))
	if p.Leader < 0 {
		p.Leader = id
	}
}

// ids returns the ids of the nodes that fit, sorted.
func (c *Cluster) ids(fits func(*node) bool) []int32 {
	ids := []int32{}
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		if fits(c.nodes[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}
