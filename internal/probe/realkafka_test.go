package probe_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// libsVariable names a folder with the jars of Apache Kafka; without it the tests
// against a real Kafka are skipped.
const libsVariable = "KEYTURN_KAFKA_LIBS"

const (
	realNodes     = 3
	realBootstrap = "real-kafka-bootstrap.test.svc"
	realClusterID = "4L6g3nShT-eMCtK--X86sw"
)

// Listeners of the real cluster: advertised port, and how clients are met.
func realListeners() []probe.Listener {
	listeners := []probe.Listener{
		{Name: "plain", Port: 9092},
		{Name: "tls", Port: 9093, TLS: true},
		{Name: "mtls", Port: 9094, TLS: true, Auth: probe.AuthTLS},
		{Name: "scram", Port: 9095, TLS: true, Auth: probe.AuthSCRAM},
	}
	for i := range listeners {
		listeners[i].Bootstrap = net.JoinHostPort(realBootstrap, strconv.Itoa(int(listeners[i].Port)))
	}
	return listeners
}

func realHost(node int) string { return fmt.Sprintf("real-%d.real-kafka-brokers.test.svc", node) }

// realKafka is a cluster of three processes on this machine.
type realKafka struct {
	folder string
	libs   string
	ports  map[string]string // advertised address → local address
	base   int

	mu        sync.Mutex
	processes [realNodes]*exec.Cmd
	restarts  [realNodes]int32
}

// Nodes implements probe.Network.
func (k *realKafka) Nodes() []reach.Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	nodes := make([]reach.Node, 0, realNodes)
	for i := range realNodes {
		node := reach.Node{Name: fmt.Sprintf("real-%d", i), Host: realHost(i), UID: "u", Broker: true, Controller: true, Restarts: k.restarts[i]}
		if k.processes[i] != nil {
			node.Address, node.Ready = "127.0.0.1", true
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// Dial implements probe.Network. Bootstrapping goes to any node that answers, as
// a service does.
func (k *realKafka) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != realBootstrap {
		return dialer.DialContext(ctx, network, k.ports[address])
	}
	for node := range realNodes {
		if conn, err := dialer.DialContext(ctx, network, k.ports[net.JoinHostPort(realHost(node), port)]); err == nil {
			return conn, nil
		}
	}
	return nil, syscall.ECONNREFUSED
}

func startRealKafka(t *testing.T, server pki.Authority, clients pki.Authority) *realKafka {
	t.Helper()
	libs := os.Getenv(libsVariable)
	if libs == "" {
		t.Skipf("set %s to a folder with Kafka's jars to run this", libsVariable)
	}
	k := &realKafka{folder: t.TempDir(), libs: libs, ports: map[string]string{}, base: 21000}
	for i := range realNodes {
		k.configure(t, i, server, clients)
		k.java(t, i, "kafka.tools.StorageTool", "format", "-t", realClusterID, "-c", k.properties(i))
	}
	for i := range realNodes {
		k.start(t, i)
	}
	t.Cleanup(func() {
		for i := range realNodes {
			k.kill(i) // a node without a quorum would wait for it to shut down
		}
	})
	k.waitInSync(t)
	return k
}

func (k *realKafka) properties(node int) string {
	return filepath.Join(k.folder, fmt.Sprintf("node-%d.properties", node))
}

func (k *realKafka) port(node, offset int) int { return k.base + node*10 + offset }

func (k *realKafka) configure(t *testing.T, node int, server, clients pki.Authority) {
	t.Helper()
	store := filepath.Join(k.folder, fmt.Sprintf("node-%d.pem", node))
	write(t, store, leafPEM(t, server, fmt.Sprintf("real-%d", node), realHost(node), realBootstrap))
	trust := filepath.Join(k.folder, "trust.pem")
	write(t, trust, pki.EncodeBundle(clients.Certificate()))
	var listeners, advertised, voters []string
	for i, listener := range realListeners() {
		local := fmt.Sprintf("127.0.0.1:%d", k.port(node, i+2))
		public := net.JoinHostPort(realHost(node), strconv.Itoa(int(listener.Port)))
		k.ports[public] = local
		listeners = append(listeners, strings.ToUpper(listener.Name)+"://"+local)
		advertised = append(advertised, strings.ToUpper(listener.Name)+"://"+public)
	}
	for i := range realNodes {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i, k.port(i, 0)))
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", node),
		"controller.quorum.voters=" + strings.Join(voters, ","),
		fmt.Sprintf("listeners=CONTROLLER://127.0.0.1:%d,INTERNAL://127.0.0.1:%d,%s", k.port(node, 0), k.port(node, 1), strings.Join(listeners, ",")),
		fmt.Sprintf("advertised.listeners=INTERNAL://127.0.0.1:%d,%s", k.port(node, 1), strings.Join(advertised, ",")),
		"inter.broker.listener.name=INTERNAL",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,PLAIN:PLAINTEXT,TLS:SSL,MTLS:SSL,SCRAM:SASL_SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + trust,
		"listener.name.mtls.ssl.client.auth=required",
		"listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512",
		"listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"log.dirs=" + filepath.Join(k.folder, fmt.Sprintf("data-%d", node)),
		"num.network.threads=2", "num.io.threads=2", "log.cleaner.enable=false",
	}
	write(t, k.properties(node), []byte(strings.Join(lines, "\n")+"\n"))
}

func (k *realKafka) command(node int, args ...string) *exec.Cmd {
	java := append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", k.libs + "/*"}, args...)
	cmd := exec.Command("java", java...)
	log, err := os.OpenFile(filepath.Join(k.folder, fmt.Sprintf("node-%d.log", node)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		cmd.Stdout, cmd.Stderr = log, log
	}
	return cmd
}

func (k *realKafka) java(t *testing.T, node int, args ...string) {
	t.Helper()
	if err := k.command(node, args...).Run(); err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
}

func (k *realKafka) start(t *testing.T, node int) {
	t.Helper()
	cmd := k.command(node, "kafka.Kafka", k.properties(node))
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting node %d: %v", node, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.processes[node] = cmd
}

func (k *realKafka) stop(t *testing.T, node int) {
	t.Helper()
	k.mu.Lock()
	cmd := k.processes[node]
	k.processes[node] = nil
	k.mu.Unlock()
	if cmd == nil {
		return
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("stopping node %d: %v", node, err)
	}
	_ = cmd.Wait() // a JVM that was told to stop ends with 143
}

func (k *realKafka) kill(node int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cmd := k.processes[node]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

func (k *realKafka) restart(t *testing.T, node int) {
	t.Helper()
	k.stop(t, node)
	k.start(t, node)
	k.mu.Lock()
	k.restarts[node]++
	k.mu.Unlock()
	k.waitInSync(t)
}

// waitInSync waits until all nodes are there and every replica is in sync.
func (k *realKafka) waitInSync(t *testing.T) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(realListeners()[0].Bootstrap), kgo.Dialer(k.Dial), kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case <-deadline:
			t.Fatal("the cluster is not in sync after two minutes")
		case <-ticker.C:
		}
		if metadata, err := kadm.NewClient(client).Metadata(t.Context()); err == nil && inSync(metadata) {
			return
		}
	}
}

func inSync(metadata kadm.Metadata) bool {
	synced := len(metadata.Brokers) == realNodes
	metadata.Topics.EachPartition(func(p kadm.PartitionDetail) { synced = synced && len(p.ISR) == len(p.Replicas) })
	return synced
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRollingRestartOfARealKafka restarts every node under all kinds of clients.
func TestRollingRestartOfARealKafka(t *testing.T) {
	server, clients := newCA(t, "cluster-ca v0"), newCA(t, "clients-ca v0")
	kafka := startRealKafka(t, server, clients)
	listeners := realListeners()
	trust := fixed(t, server.Certificate())
	login := probe.Login{User: "alice", Password: "not-a-secret"}
	plain := probe.Identity{Listener: listeners[0]}
	running, err := probe.Start(t.Context(), probe.Options{
		Run: "real", Network: kafka, Admin: &plain, Logins: []probe.Login{login}, Grants: []string{"CN=alice"},
		Clients: []probe.Client{
			{Kind: probe.KindPlain, Identity: plain},
			{Kind: probe.KindPinned, Identity: probe.Identity{Listener: listeners[1], Trust: trust}},
			{Kind: probe.KindAll, Identity: probe.Identity{Listener: listeners[1], Trust: trust}},
			{Kind: probe.KindMTLS, Identity: probe.Identity{Listener: listeners[2], Trust: trust, Credential: credential(t, clients, "alice")}},
			{Kind: probe.KindSCRAM, Identity: probe.Identity{Listener: listeners[3], Trust: trust, Login: &login}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	stranger := newCA(t, "stranger")
	for _, watch := range []probe.Watch{
		{Name: "trusts a stranger", Identity: probe.Identity{Listener: listeners[1], Trust: fixed(t, stranger.Certificate())}},
		{Name: "is a stranger", Identity: probe.Identity{Listener: listeners[2], Trust: trust, Credential: credential(t, stranger, "mallory")}},
		{Name: "is nobody", Identity: probe.Identity{Listener: listeners[2], Trust: trust}},
	} {
		if err := running.Watch(watch); err != nil {
			t.Fatal(err)
		}
	}
	before, began := cpu(t), time.Now()
	quiet := time.NewTimer(10 * time.Second)
	<-quiet.C
	t.Logf("CPU while nothing happens: %.1f %% of one core", 100*(cpu(t)-before).Seconds()/time.Since(began).Seconds())
	for node := range realNodes {
		running.SetPhase(fmt.Sprintf("restart of %d", node))
		kafka.restart(t, node)
	}
	running.SetPhase("after")
	result := running.Stop(t.Context())
	t.Logf("CPU over all: %.1f %% of one core", 100*(cpu(t)-before).Seconds()/time.Since(began).Seconds())
	t.Logf("\n%s\nnotes: %q", probe.Table(result.Snapshot), result.Notes)
	for _, watch := range result.Watches {
		for _, node := range watch.Nodes {
			t.Logf("%s %s: %d spans, phases %+v, first %+v", watch.Name, node.Node, len(node.Spans), node.Phases, node.Spans[0])
		}
	}
	if !result.Ok() {
		t.Errorf("clients lost or were refused something")
	}
	for _, client := range result.Clients {
		if gap := client.Records.LongestGap; gap.Length > 3*time.Second {
			t.Errorf("%s had no acknowledgement for %s", client.Kind, gap.Length)
		}
	}
	for _, watch := range result.Watches {
		if fresh := watch.Fresh(); fresh.Accepted > 0 || fresh.Refused == 0 {
			t.Errorf("watch that %s: %+v, want refusals only", watch.Name, fresh)
		}
	}
	for _, node := range result.Nodes {
		if node.Restarts != 1 {
			t.Errorf("%s was seen to restart %d times, want once", node.Node, node.Restarts)
		}
	}
	if folder := os.Getenv("KEYTURN_PROBE_REPORT"); folder != "" {
		leave(t, folder, result)
	}
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func fixed(t *testing.T, certificates ...*x509.Certificate) probe.Trust {
	t.Helper()
	trust, err := probe.Fixed(pki.EncodeBundle(certificates...))
	if err != nil {
		t.Fatal(err)
	}
	return trust
}
