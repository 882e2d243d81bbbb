package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Labels and annotations that people work with.
const (
	ClusterLabel   = "strimzi.io/cluster"
	podLabel       = "strimzi.io/pod-name"
	manualRoll     = "strimzi.io/manual-rolling-update"
	rollingUpdate  = condition.Type("RollingUpdate")
	resourceOfName = "metadata.name"
)

// Kafka is one Kafka cluster.
type Kafka struct {
	Kube      *Kubernetes
	Namespace string
	Name      string
}

func selected(namespace string, labels map[string]string) []client.ListOption {
	return []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(labels)}
}

func (k Kafka) of() []client.ListOption {
	return selected(k.Namespace, map[string]string{ClusterLabel: k.Name})
}

// Meta names an object of the cluster's namespace.
func (k Kafka) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: k.Namespace, Name: name}
}

// Key names an object of the cluster's namespace.
func (k Kafka) Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: name}
}

// Resource reads the Kafka resource.
func (k Kafka) Resource(ctx context.Context) (*kafkav1.Kafka, error) {
	resource := &kafkav1.Kafka{}
	if err := k.Kube.Get(ctx, k.Key(k.Name), resource); err != nil {
		return nil, fmt.Errorf("reading Kafka %s: %w", k.Name, err)
	}
	return resource, nil
}

// Until waits until the Kafka resource is as asked for. The error tells the last
// conditions seen.
func (k Kafka) Until(ctx context.Context, what string, holds func(*kafkav1.Kafka) bool) error {
	var last []condition.Condition
	err := k.Kube.Follow(ctx, &kafkav1.KafkaList{}, func(objects Objects) (bool, error) {
		resource, found := objects[k.Name].(*kafkav1.Kafka)
		if !found {
			return false, nil
		}
		last = resource.Status.Conditions
		return holds(resource), nil
	}, client.InNamespace(k.Namespace), client.MatchingFields{resourceOfName: k.Name})
	if err != nil {
		return fmt.Errorf("waiting until Kafka %s %s: %w; its conditions are %s", k.Name, what, err, describe(last))
	}
	return nil
}

func describe(conditions []condition.Condition) string {
	if len(conditions) == 0 {
		return "none"
	}
	texts := make([]string, 0, len(conditions))
	for _, c := range conditions {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Type, c.Reason, c.Message)))
	}
	return strings.Join(texts, " | ")
}

// Has says whether a condition holds, with a message that contains all texts.
func Has(resource *kafkav1.Kafka, kind condition.Type, texts ...string) bool {
	return slices.ContainsFunc(resource.Status.Conditions, func(c condition.Condition) bool {
		if c.Type != kind || c.Status != condition.True {
			return false
		}
		return !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(c.Reason+": "+c.Message, text)
		})
	})
}

// Settled is a cluster that is as its present specification wants it, with
// nothing left to be restarted.
func Settled(resource *kafkav1.Kafka) bool {
	return resource.Status.ObservedGeneration == resource.Generation &&
		Has(resource, condition.Ready) && !Has(resource, rollingUpdate)
}

// UntilSettled waits for Settled.
func (k Kafka) UntilSettled(ctx context.Context) error { return k.Until(ctx, "is settled", Settled) }

// Blocked is a roll that cannot go on, for reasons that contain all texts.
func Blocked(texts ...string) func(*kafkav1.Kafka) bool {
	return func(resource *kafkav1.Kafka) bool {
		return Has(resource, rollingUpdate, append([]string{"Blocked"}, texts...)...)
	}
}

// Pods are the UIDs of the cluster's pods, by name.
type Pods map[string]types.UID

// Names are the names in order.
func (p Pods) Names() []string { return slices.Sorted(maps.Keys(p)) }

// Pods reads which pods the operator made for the cluster.
func (k Kafka) Pods(ctx context.Context) (Pods, error) {
	list := &corev1.PodList{}
	if err := k.Kube.List(ctx, list, k.of()...); err != nil {
		return nil, fmt.Errorf("listing pods of Kafka %s: %w", k.Name, err)
	}
	pods := Pods{}
	for i := range list.Items {
		if list.Items[i].Labels[podLabel] == list.Items[i].Name {
			pods[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return pods, nil
}

// UntilPods waits until the pods of the cluster are as asked for.
func (k Kafka) UntilPods(ctx context.Context, what string, hold func(map[string]*corev1.Pod) bool) error {
	var last map[string]*corev1.Pod
	err := k.Kube.Follow(ctx, &corev1.PodList{}, func(objects Objects) (bool, error) {
		last = map[string]*corev1.Pod{}
		for name, object := range objects {
			if pod, ok := object.(*corev1.Pod); ok {
				last[name] = pod
			}
		}
		return hold(last), nil
	}, k.of()...)
	if err != nil {
		return fmt.Errorf("waiting until pods of Kafka %s %s: %w; they are %s", k.Name, what, err, describePods(last))
	}
	return nil
}

func describePods(pods map[string]*corev1.Pod) string {
	texts := make([]string, 0, len(pods))
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		state := "not ready"
		if podReady(pods[name]) {
			state = "ready"
		}
		texts = append(texts, fmt.Sprintf("%s (%s, %s)", name, pods[name].Status.Phase, state))
	}
	return strings.Join(texts, ", ")
}

func podReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// UntilReplaced waits until every pod has a ready successor.
func (k Kafka) UntilReplaced(ctx context.Context, before Pods) error {
	return k.UntilPods(ctx, "are replaced", func(pods map[string]*corev1.Pod) bool {
		for name, uid := range before {
			if !Replaced(pods[name], uid) {
				return false
			}
		}
		return true
	})
}

// RequestRoll asks for a restart of all nodes, as people do: by annotating the
// StrimziPodSets.
func (k Kafka) RequestRoll(ctx context.Context) error {
	sets := &podsetv1.StrimziPodSetList{}
	if err := k.Kube.List(ctx, sets, k.of()...); err != nil {
		return fmt.Errorf("listing StrimziPodSets of Kafka %s: %w", k.Name, err)
	}
	for i := range sets.Items {
		if err := k.Kube.Annotate(ctx, &sets.Items[i], map[string]string{manualRoll: yes}); err != nil {
			return err
		}
	}
	return nil
}

// Roll restarts all nodes and waits until the cluster is settled again.
func (k Kafka) Roll(ctx context.Context) error {
	before, err := k.Pods(ctx)
	if err != nil {
		return err
	}
	if err := k.RequestRoll(ctx); err != nil {
		return err
	}
	return k.untilRolled(ctx, before)
}

// RollOne is Roll of one node.
func (k Kafka) RollOne(ctx context.Context) error {
	pods, err := k.Pods(ctx)
	if err != nil {
		return err
	}
	name := pods.Names()[0]
	if err := k.Kube.Annotate(ctx, &corev1.Pod{ObjectMeta: k.Meta(name)}, map[string]string{manualRoll: yes}); err != nil {
		return err
	}
	return k.untilRolled(ctx, Pods{name: pods[name]})
}

func (k Kafka) untilRolled(ctx context.Context, before Pods) error {
	if err := k.UntilReplaced(ctx, before); err != nil {
		return err
	}
	return k.UntilSettled(ctx)
}
