package reach

import (
	"context"
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/keyturn/keyturn/internal/kafka/model"
)

// directory knows the pods of one cluster, kept current by a watch: a restarted
// pod has another address.
type directory struct {
	names Names
	store cache.Store
}

// watchPods returns when the pods are known; the watch ends with ctx.
func watchPods(ctx context.Context, client kubernetes.Interface, names Names) (*directory, error) {
	selector := fmt.Sprintf("%s=%s,%s=%s-kafka", model.ClusterLabel, names.Cluster, model.NameLabel, names.Cluster)
	if err := CheckPods(ctx, client, names.Namespace, selector); err != nil {
		return nil, err
	}
	informer := coreinformers.NewFilteredPodInformer(client, names.Namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.LabelSelector = selector })
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("listing pods of Kafka %s in namespace %s: %w", names.Cluster, names.Namespace, ctx.Err())
	}
	return &directory{names: names, store: informer.GetStore()}, nil
}

// CheckPods lists pods once. A watch tries again without end where that is denied.
func CheckPods(ctx context.Context, client kubernetes.Interface, namespace, selector string) error {
	if _, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1}); err != nil {
		return fmt.Errorf("listing pods in namespace %s: %w", namespace, err)
	}
	return nil
}

// nodes are the pods as last seen, by name.
func (d *directory) nodes() []Node {
	var nodes []Node
	for _, object := range d.store.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			nodes = append(nodes, NodeOf(pod, d.names.Host(pod.Name)))
		}
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name < nodes[j].Name })
	return nodes
}

// NodeOf is a pod that advertises a host.
func NodeOf(pod *corev1.Pod, host string) Node {
	node := Node{
		Name:       pod.Name,
		Host:       host,
		UID:        string(pod.UID),
		Address:    pod.Status.PodIP,
		Broker:     pod.Labels[model.BrokerRoleLabel] == "true",
		Controller: pod.Labels[model.ControllerRoleLabel] == "true",
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			node.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		node.Restarts += status.RestartCount
	}
	return node
}

// errNotThere is a node without a pod, or a pod without an address yet.
var errNotThere = errors.New("no such pod, or it has no address yet")

// pod finds a node that has an address.
func (d *directory) pod(name string) (Node, error) {
	object, exists, err := d.store.GetByKey(d.names.Namespace + "/" + name)
	if err != nil {
		return Node{}, fmt.Errorf("looking up pod %s: %w", name, err)
	}
	pod, ok := object.(*corev1.Pod)
	if !exists || !ok || pod.Status.PodIP == "" {
		return Node{}, fmt.Errorf("looking up pod %s: %w", name, errNotThere)
	}
	return NodeOf(pod, d.names.Host(pod.Name)), nil
}

// ready are the brokers that the bootstrap service would send a client to.
func (d *directory) ready() []Node {
	var ready []Node
	for _, node := range d.nodes() {
		if node.Broker && node.Ready && node.Address != "" {
			ready = append(ready, node)
		}
	}
	return ready
}
