package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness/etcdload"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// EtcdLoad is clients of an etcd cluster at work. They follow the members that vote.
type EtcdLoad struct {
	*etcdload.Load

	members   *etcdMembers
	following sync.WaitGroup
	cancel    context.CancelFunc
	// lost is why members are not followed any more.
	lost error
}

// Load starts writers, readers and fresh connections, which present a certificate of the
// cluster's client CA that outlives any scenario.
func (e Etcd) Load(ctx context.Context) (*EtcdLoad, error) {
	config, err := e.client(ctx, contract.ClientPlane)
	if err != nil {
		return nil, err
	}
	return e.LoadAs(ctx, config)
}

// LoadAs starts writers, readers and fresh connections that connect as the configuration says.
func (e Etcd) LoadAs(ctx context.Context, config *tls.Config) (*EtcdLoad, error) {
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	load := &EtcdLoad{members: &etcdMembers{etcd: e, pods: map[string]reach.Node{}}, cancel: cancel}
	if err := load.start(ctx, live, config); err != nil {
		cancel()
		return nil, fmt.Errorf("starting clients of EtcdCluster %s: %w", e.Name, err)
	}
	return load, nil
}

func (l *EtcdLoad) start(ctx, live context.Context, config *tls.Config) error {
	e := l.members.etcd
	if err := comeFirst(); err != nil {
		return err
	}
	if err := e.followVoters(ctx, func(pods map[string]reach.Node) bool {
		l.members.set(pods)
		return len(pods) > 0
	}); err != nil {
		return err
	}
	l.members.choose(ctx)
	options := etcdload.Defaults()
	options.Endpoints, options.Dial, options.TLS = l.members.endpoints(), l.members.dial, config
	options.Prefix = "load/" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	var err error
	if l.Load, err = etcdload.Start(live, options); err != nil {
		return err
	}
	l.following.Go(func() {
		l.lost = e.followVoters(live, func(pods map[string]reach.Node) bool {
			l.members.set(pods)
			l.SetEndpoints(l.members.endpoints())
			return false
		})
	})
	return nil
}

// Finish ends the clients and gives their account.
func (l *EtcdLoad) Finish(ctx context.Context) etcdload.Result {
	result := l.Load.Finish(context.WithoutCancel(ctx))
	l.cancel()
	l.following.Wait()
	if !errors.Is(l.lost, context.Canceled) {
		result.Problems = append(result.Problems, fmt.Sprintf("clients do not follow the members: %v", l.lost))
	}
	return result
}

// client is a client with a certificate of the CA of a plane, which trusts that CA alone.
func (e Etcd) client(ctx context.Context, plane contract.Plane) (*tls.Config, error) {
	ca, err := e.CA(ctx, plane)
	if err != nil {
		return nil, err
	}
	identity, err := Leaf(ca, "load")
	if err != nil {
		return nil, err
	}
	config, err := trusting(pki.EncodeBundle(ca.Certificate()))
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(identity.Chain, identity.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of clients: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return config, nil
}

// followVoters tells of the pods of members that vote and have an address, until it is enough.
func (e Etcd) followVoters(ctx context.Context, enough func(map[string]reach.Node) bool) error {
	return e.Kube.Follow(ctx, &corev1.PodList{}, func(objects Objects) (bool, error) {
		pods := map[string]reach.Node{}
		for name, object := range objects {
			if pod, ok := object.(*corev1.Pod); ok && pod.Status.PodIP != "" {
				pods[name] = reach.Node{Name: name, UID: string(pod.UID), Address: pod.Status.PodIP}
			}
		}
		return enough(pods), nil
	}, e.voters()...)
}

// voters selects the pods of members that vote.
func (e Etcd) voters() []client.ListOption {
	return selected(e.Namespace, map[string]string{model.ClusterLabel: e.Name, model.RoleLabel: string(etcdv1beta2.RoleVoter)})
}

// etcdMembers are the pods of the members that vote, as last seen.
type etcdMembers struct {
	etcd Etcd

	mu   sync.Mutex
	pods map[string]reach.Node // by name
	// forward is the way through the API server, nil where pods can be reached from here.
	forward func(ctx context.Context, pod reach.Node, port string) (net.Conn, error)
}

func (m *etcdMembers) set(pods map[string]reach.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods = pods
}

func (m *etcdMembers) endpoints() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	endpoints := make([]string, 0, len(m.pods))
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		endpoints = append(endpoints, net.JoinHostPort(m.etcd.names().Host(name), strconv.Itoa(contract.ClientPort)))
	}
	return endpoints
}

// tryTimeout bounds the question whether pods can be reached from here.
const tryTimeout = time.Second

// choose goes through the API server where no member can be reached from here.
func (m *etcdMembers) choose(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	for _, endpoint := range m.endpoints() {
		if conn, err := m.dial(ctx, endpoint); err == nil {
			_ = conn.Close() // it was only to know
			return
		}
	}
	m.forward = reach.Forward(m.etcd.Kube.Plain, m.etcd.Kube.Config, m.etcd.Namespace)
}

// dial connects to the pod that a member has at present.
func (m *etcdMembers) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, fmt.Errorf("reading endpoint %s: %w", endpoint, err)
	}
	pod, err := m.find(host)
	if err != nil {
		return nil, err
	}
	if m.forward != nil {
		return m.forward(ctx, pod, port)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Address, port))
}

var errNoMember = errors.New("it has no pod, or one without an address")

func (m *etcdMembers) find(host string) (reach.Node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, pod := range m.pods {
		if m.etcd.names().Host(name) == host {
			return pod, nil
		}
	}
	return reach.Node{}, fmt.Errorf("looking for member %s: %w", host, errNoMember)
}
