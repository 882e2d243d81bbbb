package controller

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// known gathers what the running cluster binds the model to. The pod sets are
// the record of which nodes there are: they are written before any pod exists.
func (o *observation) known() model.Known {
	known := model.Known{
		ClusterID:       o.kafka.Status.ClusterId,
		MetadataVersion: model.MetadataVersion(o.kafka.Status.KafkaMetadataVersion),
		Pools:           map[string]model.KnownPool{},
	}
	for name := range o.podSets {
		set := o.podSets[name]
		pool := set.Labels[model.PoolLabel]
		known.Pools[pool] = o.knownPool(&set)
	}
	return known
}

// knownPool counts the nodes of a pod set: those it describes, and those whose
// pods still run although it no longer does.
func (o *observation) knownPool(set *podsetv1.StrimziPodSet) model.KnownPool {
	pool := model.KnownPool{Storage: recordedStorage(set)}
	for name := range o.pods {
		if pod := o.pods[name]; pod.Labels[model.PoolLabel] == set.Labels[model.PoolLabel] {
			addNode(&pool, pod, set.Name)
		}
	}
	described := describedPods(set)
	for i := range described {
		addNode(&pool, &described[i], set.Name)
	}
	slices.Sort(pool.NodeIDs)
	return pool
}

func recordedStorage(set *podsetv1.StrimziPodSet) *kafkav1.Storage {
	storage, err := model.ParseStorage(set.Annotations[model.StorageAnnotation])
	if err != nil {
		return nil
	}
	return &storage
}

// describedPods reads the pods of a set; one that cannot be read is left out: it
// is not ours, and the pod set controller says so.
func describedPods(set *podsetv1.StrimziPodSet) []corev1.Pod {
	pods := make([]corev1.Pod, 0, len(set.Spec.Pods))
	for _, raw := range set.Spec.Pods {
		var pod corev1.Pod
		if json.Unmarshal(raw.Raw, &pod) == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// addNode adds the node of a pod of the set to the pool.
func addNode(pool *model.KnownPool, pod *corev1.Pod, set string) {
	id, err := strconv.ParseInt(strings.TrimPrefix(pod.Name, set+"-"), 10, 32)
	if err != nil || slices.Contains(pool.NodeIDs, model.NodeID(id)) {
		return
	}
	pool.NodeIDs = append(pool.NodeIDs, model.NodeID(id))
	pool.Roles = model.Roles{
		Controller: pod.Labels[model.ControllerRoleLabel] == isTrue,
		Broker:     pod.Labels[model.BrokerRoleLabel] == isTrue,
	}
}
