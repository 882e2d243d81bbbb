package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	kafkaclient "github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// Deadlines for what is asked of a cluster. A reconcile must not wait for a node that
// hangs: it is asked again in the next reconcile.
const (
	adminTimeout = 5 * time.Second
	dialTimeout  = 2 * time.Second
	agentTimeout = 3 * time.Second
)

// Ports of the listeners that every node has.
const (
	controlPlanePort = "9090"
	replicationPort  = "9091"
)

// Agents asks the agents of a cluster's pods.
type Agents interface {
	TLS(ctx context.Context, node client.Node) (publication.Report, error)
	BrokerState(ctx context.Context, node client.Node) (contract.BrokerState, error)
}

// Access is what is needed to talk to the processes of one cluster.
type Access struct {
	// Brokers and Controllers are addresses host:port. Leaving are those of brokers that are
	// to go, and that others may still name.
	Brokers, Controllers, Leaving []string
	Credentials                   mtls.Credentials
	// Leaves gives the fingerprints of leaves issued to a host.
	Leaves func(host string) []string
}

// Connector makes the clients of a cluster.
type Connector interface {
	Admin(access Access) (admin.Client, error)
	Agents(access Access) Agents
}

// NetConnector connects over the network.
type NetConnector struct {
	Clock clock.PassiveClock
}

// Admin returns a client of the cluster's brokers and controllers.
func (c NetConnector) Admin(access Access) (admin.Client, error) {
	opened, err := admin.Open(admin.Options{
		Brokers:     access.Brokers,
		Controllers: access.Controllers,
		Leaving:     access.Leaving,
		Dial:        (&net.Dialer{}).DialContext,
		Credentials: access.source(),
		Leaves:      access.Leaves,
		Now:         c.Clock.Now,
		Timeout:     adminTimeout,
		DialTimeout: dialTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the admin client: %w", err)
	}
	return opened, nil
}

// Agents returns a client of the cluster's agents.
func (c NetConnector) Agents(access Access) Agents {
	return kafkaclient.New(client.Options{
		Dial:        (&net.Dialer{}).DialContext,
		Credentials: access.source(),
		Now:         c.Clock.Now,
		Timeout:     agentTimeout,
	})
}

func (a Access) source() mtls.Source {
	return func(context.Context) (mtls.Credentials, error) { return a.Credentials, nil }
}

// access puts together how the operator reaches the nodes and recognises them:
// by all anchors that are not withdrawn, or by the very leaves it issued.
func access(cluster model.Cluster, identity tls.Certificate, anchors []*x509.Certificate, leaves map[string][]string) Access {
	a := Access{
		Credentials: mtls.Credentials{Identity: identity, Anchors: anchors},
		Leaves:      func(host string) []string { return leaves[host] },
	}
	for _, node := range cluster.Nodes {
		host := cluster.Names.PodHost(node.Pod)
		if node.Roles.Broker {
			a.Brokers = append(a.Brokers, net.JoinHostPort(host, replicationPort))
		}
		if node.Roles.Controller {
			a.Controllers = append(a.Controllers, net.JoinHostPort(host, controlPlanePort))
		}
	}
	return a
}

// agentOf addresses the agent of a pod, by its IP: a name may still lead to the
// pod's predecessor.
func agentOf(names model.Names, pod *corev1.Pod, leaves map[string][]string) client.Node {
	host := names.PodHost(pod.Name)
	return client.Node{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(agent.SecurePort)),
		Name:    host,
		Leaves:  leaves[host],
	}
}

// waitedFor reports whether a question failed because time has passed. What refuses does so at once.
func waitedFor(err error) bool {
	network, is := errors.AsType[net.Error](err)
	return is && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, syscall.EHOSTUNREACH)
}
