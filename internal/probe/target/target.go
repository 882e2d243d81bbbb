package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// Names of the listeners that every cluster has beside those of its resource.
const (
	Replication  = "replication"
	ControlPlane = "controlplane"
)

// Target is one Kafka cluster as the probe's clients see it.
type Target struct {
	names     reach.Names
	client    kubernetes.Interface
	network   *reach.Network
	listeners []probe.Listener

	// watch starts the watch of a Secret, watchVersion one that is told only that
	// it changed; both end with the context of Open.
	watch        func(name string) (probe.Source, error)
	watchVersion func(name string) (func() string, error)

	mu      sync.Mutex
	sources map[string]probe.Source
}

// Open reads the Kafka resource and begins to watch its pods, until ctx ends.
func Open(ctx context.Context, config *rest.Config, names reach.Names, via reach.Via) (*Target, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	resources, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	versions, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making Kubernetes client: %w", err)
	}
	kafka, err := readKafka(ctx, resources, names)
	if err != nil {
		return nil, err
	}
	listeners, err := listenersOf(kafka, names)
	if err != nil {
		return nil, err
	}
	network, err := reach.Open(ctx, config, names, via)
	if err != nil {
		return nil, err
	}
	return &Target{
		names: names, client: client, network: network, listeners: listeners,
		watch: func(name string) (probe.Source, error) {
			return watchSecret(ctx, client, names.Namespace, name)
		},
		watchVersion: func(name string) (func() string, error) {
			return watchVersion(ctx, versions, names.Namespace, name)
		},
		sources: map[string]probe.Source{},
	}, nil
}

// Network is the way to the cluster's nodes.
func (t *Target) Network() *reach.Network { return t.network }

// readKafka accepts both versions of the API, as operators of both are around.
func readKafka(ctx context.Context, client dynamic.Interface, names reach.Names) (*unstructured.Unstructured, error) {
	var failures []error
	for _, version := range []string{"v1", "v1beta2"} {
		resource := schema.GroupVersionResource{Group: "kafka.strimzi.io", Version: version, Resource: "kafkas"}
		kafka, err := client.Resource(resource).Namespace(names.Namespace).Get(ctx, names.Cluster, metav1.GetOptions{})
		if err == nil {
			return kafka, nil
		}
		failures = append(failures, err)
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	return nil, fmt.Errorf("reading Kafka %s in namespace %s: %w", names.Cluster, names.Namespace, failures[0])
}

// errNoListeners is a Kafka resource that has none that could be read.
var errNoListeners = errors.New("spec.kafka.listeners has no listener of type internal")

// listenersOf reads the listeners of type internal, and adds the two that every
// cluster has.
func listenersOf(kafka *unstructured.Unstructured, names reach.Names) ([]probe.Listener, error) {
	raw, _, err := unstructured.NestedSlice(kafka.Object, "spec", "kafka", "listeners")
	if err != nil {
		return nil, fmt.Errorf("reading listeners of Kafka %s: %w", names.Cluster, err)
	}
	var listeners []probe.Listener
	for _, item := range raw {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if kind, _, _ := unstructured.NestedString(fields, "type"); kind != "internal" {
			continue
		}
		listeners = append(listeners, listenerOf(fields, names))
	}
	if len(listeners) == 0 {
		return nil, fmt.Errorf("reading listeners of Kafka %s: %w", names.Cluster, errNoListeners)
	}
	return append(listeners,
		probe.Listener{
			Name: Replication, Port: contract.ReplicationPort, TLS: true, Auth: probe.AuthTLS,
			Role: probe.RoleBroker, Bootstrap: hostPort(names.BrokersHost(), contract.ReplicationPort),
		},
		probe.Listener{
			Name: ControlPlane, Port: contract.ControlPlanePort, TLS: true, Auth: probe.AuthTLS,
			Role: probe.RoleController,
		}), nil
}

// listenerOf trusts the API server's schema: a field of another type is as good
// as none.
func listenerOf(fields map[string]any, names reach.Names) probe.Listener {
	name, _, _ := unstructured.NestedString(fields, "name")
	port, _, _ := unstructured.NestedInt64(fields, "port")
	secured, _, _ := unstructured.NestedBool(fields, "tls")
	auth, _, _ := unstructured.NestedString(fields, "authentication", "type")
	number := portNumber(port)
	return probe.Listener{
		Name: name, Port: number, TLS: secured, Auth: probe.Auth(auth), Role: probe.RoleBroker,
		Bootstrap: hostPort(names.BootstrapHost(), number),
	}
}

func portNumber(port int64) int32 {
	const highest = 65535
	return int32(min(max(port, 0), highest))
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// Listener finds a listener by its name.
func (t *Target) Listener(name string) (probe.Listener, error) {
	known := make([]string, 0, len(t.listeners))
	for _, listener := range t.listeners {
		if listener.Name == name {
			return listener, nil
		}
		known = append(known, listener.Name)
	}
	return probe.Listener{}, fmt.Errorf("kafka %s has no listener %q of type internal, only %q", t.names.Cluster, name, known)
}

// Secret is the source of one Secret, watched from its first use on.
func (t *Target) Secret(name string) (probe.Source, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if source, ok := t.sources[name]; ok {
		return source, nil
	}
	source, err := t.watch(name)
	if err != nil {
		return nil, err
	}
	t.sources[name] = source
	return source, nil
}

// ClusterCA is the source of what applications trust.
func (t *Target) ClusterCA() (probe.Source, error) {
	return t.Secret(authorities.Cluster.CertSecret(t.names.Cluster))
}
