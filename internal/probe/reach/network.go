package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Via is a way from this machine to the pods.
type Via string

// The ways. Auto takes DNS inside the cluster, Direct where pod addresses can be
// reached from here, and PortForward otherwise.
const (
	Auto        Via = "auto"
	Direct      Via = "direct"
	PortForward Via = "port-forward"
	DNS         Via = "dns"
)

// tokenFile exists in a pod, and nowhere else.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

const (
	// tryTimeout bounds the question whether pods can be reached directly.
	tryTimeout = time.Second
	// replicationPort is open on every broker.
	replicationPort = "9091"
)

// route opens a connection to a port of a pod.
type route func(ctx context.Context, node Node, port string) (net.Conn, error)

// Network reaches the pods of one cluster under their advertised names.
type Network struct {
	directory *directory
	via       Via
	route     route
	next      atomic.Uint64
}

// Open watches the pods of a cluster until ctx ends and decides the way to them.
func Open(ctx context.Context, config *rest.Config, names Names, via Via) (*Network, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	directory, err := watchPods(ctx, client, names)
	if err != nil {
		return nil, err
	}
	n := &Network{directory: directory, via: via}
	if via == Auto || via == "" {
		n.via = n.choose(ctx)
	}
	switch n.via {
	case Direct, DNS:
		n.route = direct
	case PortForward:
		n.route = newForwarder(client, config, names.Namespace).dial
	default:
		return nil, fmt.Errorf("way to the brokers %q is none of auto, direct, port-forward, dns", via)
	}
	return n, nil
}

// Via is the way that was taken.
func (n *Network) Via() Via { return n.via }

// Nodes are the pods of the cluster as last seen, ordered by name.
func (n *Network) Nodes() []Node { return n.directory.nodes() }

// choose finds the cheapest way that works.
func (n *Network) choose(ctx context.Context) Via {
	if _, err := os.Stat(tokenFile); err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return DNS
	}
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	for _, node := range n.directory.ready() {
		if conn, err := direct(ctx, node, replicationPort); err == nil {
			_ = conn.Close() // it was only to know
			return Direct
		}
	}
	return PortForward
}

func direct(ctx context.Context, node Node, port string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(node.Address, port))
}

// Dial opens a TCP connection to an advertised "host:port". Names that are not of
// this cluster are left to the machine's own resolver.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading address %q: %w", address, err)
	}
	kind, pod := n.directory.names.find(host)
	switch {
	case n.via == DNS || kind == targetOther:
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, address)
	case kind == targetBootstrap:
		return n.bootstrap(ctx, port)
	default:
		node, err := n.directory.pod(pod)
		if err != nil {
			return nil, err
		}
		return n.route(ctx, node, port)
	}
}

// bootstrap goes to the ready brokers in turn, as the service does.
func (n *Network) bootstrap(ctx context.Context, port string) (net.Conn, error) {
	ready := n.directory.ready()
	failures := []error{errNoBroker}
	for range ready {
		turn := n.next.Add(1) % uint64(len(ready))
		conn, err := n.route(ctx, ready[turn], port)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// errNoBroker is a bootstrap service that leads nowhere.
var errNoBroker = errors.New("no ready broker answers behind the bootstrap service")
