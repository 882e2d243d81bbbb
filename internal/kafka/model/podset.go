package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	podsetac "github.com/keyturn/keyturn/api/core/v1/applyconfiguration/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Describe turns a pod that Pod made into its description in a StrimziPodSet.
func (c Cluster) Describe(pod *coreac.PodApplyConfiguration) (runtime.RawExtension, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return runtime.RawExtension{}, fmt.Errorf("encoding pod %s/%s: %w", c.Names.Namespace, *pod.Name, err)
	}
	return runtime.RawExtension{Raw: data}, nil
}

// PodSet is the StrimziPodSet of a pool with the descriptions of pods, which need
// not be those of all its nodes. Its annotations record, for the next pass, the
// nodes, the storage and the version.
func (c Cluster) PodSet(pool Pool, pods []runtime.RawExtension) (*podsetac.StrimziPodSetApplyConfiguration, error) {
	storage, err := EncodeStorage(pool.Storage)
	if err != nil {
		return nil, err
	}
	nodes, err := RecordedNodes{IDs: pool.NodeIDs, Roles: pool.Roles}.Encode()
	if err != nil {
		return nil, err
	}
	return podsetac.StrimziPodSet(c.Names.PodSet(pool.Name), c.Names.Namespace).
		WithLabels(c.poolLabels(pool)).
		WithAnnotations(map[string]string{
			NodesAnnotation: nodes, StorageAnnotation: storage, KafkaVersionAnnotation: c.Version.Name,
		}).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(podsetac.StrimziPodSetSpec().
			WithSelector(metaac.LabelSelector().WithMatchLabels(c.poolSelector(pool.Name))).
			WithPods(pods...)), nil
}

// PoolStatus is what the status of a pool's resource says of its nodes; the
// conditions and the observed generation are the caller's.
func (c Cluster) PoolStatus(pool Pool) kafkav1.KafkaNodePoolStatus {
	status := kafkav1.KafkaNodePoolStatus{
		ClusterId:     c.ClusterID,
		LabelSelector: selectorText(c.poolSelector(pool.Name)),
	}
	for _, id := range pool.NodeIDs {
		status.NodeIds = append(status.NodeIds, int32(id))
		status.Replicas++
	}
	for _, role := range pool.Roles.List() {
		status.Roles = append(status.Roles, kafkav1.ProcessRole(role))
	}
	return status
}

// UsedPools names the pools for the status of the Kafka.
func (c Cluster) UsedPools() []kafkav1.UsedNodePool {
	used := make([]kafkav1.UsedNodePool, 0, len(c.Pools))
	for _, pool := range c.Pools {
		used = append(used, kafkav1.UsedNodePool{Name: pool.Name})
	}
	return used
}

func selectorText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}
