package agenttest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	kafkaagent "github.com/keyturn/keyturn/internal/kafka/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Times after which a real Kafka is given up.
const (
	startLimit   = 3 * time.Minute
	requestLimit = 20 * time.Second
	// graceSeconds is short: the last nodes of a quorum cannot leave it cleanly.
	graceSeconds = 10
)

// TLSListener is the client listener of every broker made here.
const TLSListener publication.Role = "tls-9093"

// OpenListener asks for no client certificate. Brokers have it where a ClusterSpec says so.
const OpenListener publication.Role = "open-9096"

// ClusterSpec describes a cluster of real Kafka nodes.
type ClusterSpec struct {
	// KafkaHome holds Kafka's jars in libs.
	KafkaHome string
	// Network is the first three numbers of loopback addresses that no other test
	// uses, for example 127.83.1; node n listens on <Network>.<n+1>.
	Network string
	// Nodes are the roles of each node; a node's id is its place.
	Nodes [][]string
	// MetadataVersion is formatted with; empty means the newest.
	MetadataVersion string
	// Dial is how agents reach their own servers; nil means plainly.
	Dial mtls.DialFunc
	// JavaOptions replace the small heap that is the default.
	JavaOptions []string
	// Turn is how long a node's agent waits until it reloads; nil means what agents do.
	Turn func(nodeID int32) time.Duration
	// Extra are more listeners of each broker: OpenListener, or none.
	Extra []publication.Role
}

// Cluster is a running cluster. Its nodes are stopped when the test ends.
type Cluster struct {
	ID    string
	Nodes []*Node
	// Cluster and Clients are the authorities it was started with.
	Cluster, Clients pki.Authority
	// operator is the operator's identity.
	operator stores.Identity
}

// Node is one agent with its Kafka server.
type Node struct {
	ID      int32
	Address string
	Roles   []string
	// Identity is what it was published to present.
	Identity stores.Identity
	// Log is the file with everything agent and server wrote.
	Log string

	// Publication and Mounted are what is mounted into its pod now.
	Publication publication.Publication
	Mounted     stores.Mounted

	// leaves are those it was ever published to present.
	leaves  []string
	options kafkaagent.Options
	cancel  context.CancelFunc
	// ended is closed when the agent has ended, with err.
	ended chan struct{}
	err   error
}

// Start starts the agents of all nodes together and returns when every node is
// ready.
func Start(tb testing.TB, spec ClusterSpec) *Cluster {
	tb.Helper()
	now := time.Now()
	c := &Cluster{
		ID:      "MkU3OEVBNTcwNTJENDM2Qg",
		Cluster: Authority(tb, "cluster-ca v0", now),
		Clients: Authority(tb, "clients-ca v0", now),
	}
	c.operator = Operator(tb, c.Cluster, now)
	directory := tb.TempDir() // before stop, so that it is removed after it
	tb.Cleanup(c.stop)
	for id, roles := range spec.Nodes {
		c.Nodes = append(c.Nodes, &Node{ID: int32(id), Roles: roles, Address: fmt.Sprintf("%s.%d", spec.Network, id+1)})
	}
	for _, n := range c.Nodes {
		c.prepare(tb, spec, n, filepath.Join(directory, strconv.Itoa(int(n.ID))))
		n.Start(tb)
	}
	for _, n := range c.Nodes {
		c.AwaitReady(tb, n)
	}
	return c
}

// prepare writes what is mounted into the node's pod.
func (c *Cluster) prepare(tb testing.TB, spec ClusterSpec, n *Node, directory string) {
	tb.Helper()
	name := n.Name()
	n.Identity = Leaf(tb, c.Cluster, "my-cluster-kafka", time.Now(), n.Address)
	config := contract.Config{
		Cluster: "my-cluster", Namespace: "test", PodName: name, NodeID: n.ID, Roles: n.Roles,
		Stores:       nodeStores(n.Roles, spec.Extra),
		JavaOptions:  []string{"-Xms256m", "-Xmx384m", "-XX:+UseSerialGC"},
		DataDirs:     []string{filepath.Join(directory, "data", "kafka-log"+strconv.Itoa(int(n.ID)))},
		GraceSeconds: graceSeconds,
	}
	if spec.JavaOptions != nil {
		config.JavaOptions = spec.JavaOptions
	}
	published := c.publication(n, config)
	mounted := stores.Mounted{
		Node:         stores.Directory{},
		ClusterTrust: TrustDirectory(c.Cluster.Certificate()),
		ClientsTrust: TrustDirectory(c.Clients.Certificate()),
		Config:       Configuration(tb, config, c.ID, c.serverConfig(n, config, spec.Extra)),
		Pod:          Pod(tb, published),
	}
	mounted.Config[contract.LoggingKey], mounted.Config[contract.Log4j1Key] = []byte(logging), []byte(log4j1)
	mounted.Config[contract.MetadataVersionKey] = []byte(spec.MetadataVersion)
	PutIdentity(mounted.Node, name, n.Identity)
	PutPublication(tb, mounted.Node, published)
	n.Publication, n.Mounted = published, mounted
	n.leaves = []string{n.Identity.Fingerprint()}
	n.Log = filepath.Join(directory, "log")
	n.options = kafkaagent.Options{
		Mounts:        WriteMounts(tb, filepath.Join(directory, "mounts"), mounted),
		RunDir:        filepath.Join(directory, "run"),
		KafkaHome:     spec.KafkaHome,
		Host:          n.Address,
		SecureAddress: net.JoinHostPort(n.Address, strconv.Itoa(agent.SecurePort)),
		ProbeAddress:  net.JoinHostPort(n.Address, strconv.Itoa(agent.ProbePort)),
		Env:           os.Environ(),
		Wait:          process.WaitForOne,
		Dial:          (&net.Dialer{}).DialContext,
		Clock:         clock.RealClock{},
		Turn:          kafkaagent.TurnOf,
	}
	if spec.Dial != nil {
		n.options.Dial = spec.Dial
	}
	if spec.Turn != nil {
		n.options.Turn = spec.Turn
	}
}

// logging is a log4j2 configuration that writes to the standard output.
const logging = `status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p [%t] %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
`

// log4j1 is the same for servers before Kafka 4.0.
const log4j1 = `log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p [%t] %m (%c)%n
`

func nodeStores(roles []string, extra []publication.Role) []publication.Store {
	list := []publication.Store{{
		Role: contract.ControlPlaneListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain,
	}}
	if slices.Contains(roles, contract.RoleBroker) {
		list = append(
			list,
			publication.Store{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
			publication.Store{Role: TLSListener, Identity: publication.NodeIdentity, Trust: contract.ClientsDomain},
		)
		for _, listener := range extra {
			list = append(list, publication.Store{Role: listener, Identity: publication.NodeIdentity, Trust: contract.ClientsDomain})
		}
	}
	return list
}

func (c *Cluster) publication(n *Node, config contract.Config) publication.Publication {
	domains := map[publication.Domain][]string{
		contract.ClusterDomain: {pki.FingerprintOf(c.Cluster.Certificate()).String()},
		contract.ClientsDomain: {pki.FingerprintOf(c.Clients.Certificate()).String()},
	}
	published := publication.Publication{
		Revision:   1,
		Identities: map[string]string{publication.NodeIdentity: n.Identity.Fingerprint()},
		Trust:      map[publication.Role][]string{publication.AgentRole: domains[contract.ClusterDomain]},
		Operators:  []string{c.operator.Fingerprint()},
	}
	for _, store := range config.Stores {
		published.Trust[store.Role] = domains[store.Trust]
	}
	return published
}

func (c *Cluster) serverConfig(n *Node, config contract.Config, extra []publication.Role) string {
	listener := func(name publication.Role) string {
		port, _ := name.Port()
		return fmt.Sprintf("%s://%s", strings.ToUpper(string(name)), net.JoinHostPort(n.Address, strconv.Itoa(port)))
	}
	listeners, advertised := []string{}, []string{}
	if config.HasRole(contract.RoleController) {
		listeners = append(listeners, listener(contract.ControlPlaneListener))
	}
	protocols := []string{"CONTROLPLANE-9090:SSL", "REPLICATION-9091:SSL", "TLS-9093:SSL"}
	if config.HasRole(contract.RoleBroker) {
		advertised = append(advertised, listener(contract.ReplicationListener), listener(TLSListener))
		for _, name := range extra {
			advertised = append(advertised, listener(name))
			protocols = append(protocols, strings.ToUpper(string(name))+":SSL")
		}
	}
	lines := []string{
		"node.id=" + strconv.Itoa(int(n.ID)),
		"process.roles=" + strings.Join(n.Roles, ","),
		"controller.listener.names=CONTROLPLANE-9090",
		"controller.quorum.voters=" + strings.Join(c.voters(), ","),
		"listeners=" + strings.Join(append(listeners, advertised...), ","),
		"listener.security.protocol.map=" + strings.Join(protocols, ","),
		"listener.name.controlplane-9090.ssl.client.auth=required",
		"ssl.endpoint.identification.algorithm=HTTPS",
		"ssl.allow.dn.changes=true",
		"ssl.allow.san.changes=true",
		"log.dirs=" + strings.Join(config.DataDirs, ","),
		"offsets.topic.replication.factor=" + strconv.Itoa(min(3, len(c.Nodes))),
		"group.initial.rebalance.delay.ms=0",
		"auto.create.topics.enable=false",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:CN=my-cluster-kafka,O=io.strimzi;User:CN=cluster-operator,O=io.strimzi",
	}
	if config.HasRole(contract.RoleBroker) {
		lines = append(
			lines,
			"advertised.listeners="+strings.Join(advertised, ","),
			"inter.broker.listener.name=REPLICATION-9091",
			"listener.name.replication-9091.ssl.client.auth=required",
			"listener.name.tls-9093.ssl.client.auth=required",
		)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (c *Cluster) voters() []string {
	voters := []string{}
	for _, n := range c.Nodes {
		if slices.Contains(n.Roles, contract.RoleController) {
			voters = append(voters, fmt.Sprintf("%d@%s", n.ID, net.JoinHostPort(n.Address, strconv.Itoa(contract.ControlPlanePort))))
		}
	}
	return voters
}

// Start starts the node's agent; the cluster's Start has done so once.
func (n *Node) Start(tb testing.TB) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(n.Log), 0o700); err != nil {
		tb.Fatal(err)
	}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	options := n.options
	options.Output, options.Log = log, slog.New(slog.NewJSONHandler(log, nil))
	n.cancel, n.ended = cancel, make(chan struct{})
	go func() {
		defer close(n.ended)
		n.err = errors.Join(kafkaagent.Run(ctx, options), log.Close())
	}()
}

// stop stops all nodes together.
func (c *Cluster) stop() {
	running := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Node) bool { return n.cancel == nil })
	for _, n := range running {
		n.cancel()
	}
	for _, n := range running {
		<-n.ended
	}
}

// Stop asks the node to stop and returns its agent's error when it has.
func (n *Node) Stop() error {
	n.cancel()
	<-n.ended
	return n.err
}

// AwaitReady returns when the node is ready.
func (c *Cluster) AwaitReady(tb testing.TB, n *Node) {
	tb.Helper()
	agents := c.Agents()
	deadline := time.After(startLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		readiness, err := agents.Ready(tb.Context(), c.AgentNode(n))
		if err == nil && readiness.Ready {
			return
		}
		select {
		case <-deadline:
			tb.Fatalf("node %d is not ready after %s: %+v, %v; its log:\n%s", n.ID, startLimit, readiness, err, n.tail())
		case <-n.ended:
			tb.Fatalf("the agent of node %d ended: %v; its log:\n%s", n.ID, n.err, n.tail())
		case <-tick.C:
		}
	}
}

// tail returns the end of the node's log, which is gone with the test.
func (n *Node) tail() string {
	const length = 4 << 10
	data, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-length):])
}

// Credentials are the operator's.
func (c *Cluster) Credentials(context.Context) (mtls.Credentials, error) {
	return mtls.Credentials{
		Identity: server.Certificate(c.operator),
		Anchors:  []*x509.Certificate{c.Cluster.Certificate()},
	}, nil
}

// Agents returns the operator's client of the agents.
func (c *Cluster) Agents() *client.Client {
	return client.New(client.Options{
		Dial: (&net.Dialer{}).DialContext, Credentials: c.Credentials, Now: time.Now, Timeout: requestLimit,
	})
}

// AgentNode is how the node's agent is asked.
func (c *Cluster) AgentNode(n *Node) client.Node {
	return client.Node{
		Address: n.options.SecureAddress, Name: n.Address, Leaves: n.leaves,
	}
}

// AdminOptions are how the operator reaches the cluster.
func (c *Cluster) AdminOptions() admin.Options {
	options := admin.Options{
		Dial: (&net.Dialer{}).DialContext, Credentials: c.Credentials, Now: time.Now,
		Timeout: requestLimit, DialTimeout: requestLimit,
	}
	for _, n := range c.Nodes {
		if slices.Contains(n.Roles, contract.RoleBroker) {
			options.Brokers = append(options.Brokers, net.JoinHostPort(n.Address, strconv.Itoa(contract.ReplicationPort)))
		}
		if slices.Contains(n.Roles, contract.RoleController) {
			options.Controllers = append(options.Controllers, net.JoinHostPort(n.Address, strconv.Itoa(contract.ControlPlanePort)))
		}
	}
	return options
}
