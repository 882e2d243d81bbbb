package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// Members are the pods of the members that vote, kept current by a watch.
type Members struct {
	names    model.Names
	informer cache.SharedIndexInformer
	// forward is the way through the API server, nil where pods can be reached from here.
	forward func(ctx context.Context, pod reach.Node, port string) (net.Conn, error)
}

// tryTimeout bounds the question whether pods can be reached from here.
const tryTimeout = time.Second

// Follow returns when the members are known, with the way to them. The watch ends with ctx.
func Follow(ctx context.Context, client kubernetes.Interface, config *rest.Config, names model.Names) (*Members, error) {
	selector := fmt.Sprintf("%s=%s,%s=%s", model.ClusterLabel, names.Cluster, model.RoleLabel, etcdv1beta2.RoleVoter)
	if err := reach.CheckPods(ctx, client, names.Namespace, selector); err != nil {
		return nil, err
	}
	m := &Members{names: names, informer: coreinformers.NewFilteredPodInformer(client, names.Namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = selector })}
	go m.informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
		return nil, fmt.Errorf("listing the members of EtcdCluster %s: %w", names.NamespacedName(), ctx.Err())
	}
	if !m.areNear(ctx) {
		m.forward = reach.Forward(client, config, names.Namespace)
	}
	return m, nil
}

// areNear reports whether a member can be reached from here.
func (m *Members) areNear(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return slices.ContainsFunc(m.Endpoints(), func(endpoint string) bool {
		conn, err := m.Dial(ctx, endpoint)
		if err != nil {
			return false
		}
		_ = conn.Close() // it was only to know
		return true
	})
}

// OnChange calls yield with the endpoints whenever a member is another one.
func (m *Members) OnChange(yield func(endpoints []string)) error {
	changed := func() { yield(m.Endpoints()) }
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return fmt.Errorf("following the members of EtcdCluster %s: %w", m.names.NamespacedName(), err)
	}
	return nil
}

// Names are the members that vote, sorted.
func (m *Members) Names() []string {
	keys := m.informer.GetStore().ListKeys()
	for i, key := range keys {
		_, keys[i], _ = strings.Cut(key, "/")
	}
	slices.Sort(keys)
	return keys
}

// Endpoints are the members that have an address, as host:port, sorted. The host is the name that a member's certificate has.
func (m *Members) Endpoints() []string {
	var endpoints []string
	for _, object := range m.informer.GetStore().List() {
		if pod, is := object.(*corev1.Pod); is && pod.Status.PodIP != "" {
			endpoints = append(endpoints, net.JoinHostPort(m.names.Host(pod.Name), strconv.Itoa(contract.ClientPort)))
		}
	}
	slices.Sort(endpoints)
	return endpoints
}

var errNoMember = errors.New("it has no pod, or one without an address")

// Dial connects to the pod that a member has at present.
func (m *Members) Dial(ctx context.Context, endpoint string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, fmt.Errorf("reading endpoint %s: %w", endpoint, err)
	}
	name, _, _ := strings.Cut(host, ".")
	object, exists, err := m.informer.GetStore().GetByKey(m.names.Namespace + "/" + name)
	pod, is := object.(*corev1.Pod)
	if err != nil || !exists || !is || pod.Status.PodIP == "" {
		return nil, fmt.Errorf("looking for member %s: %w", host, errNoMember)
	}
	if m.forward != nil {
		return m.forward(ctx, reach.Node{Name: pod.Name, UID: string(pod.UID), Address: pod.Status.PodIP}, port)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
}
