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

// PodSet is the StrimziPodSet of a pool with the pods that Pod made for its
// nodes. Its annotations record the storage and the version for the next pass.
func (c Cluster) PodSet(pool Pool, pods []*coreac.PodApplyConfiguration) (*podsetac.StrimziPodSetApplyConfiguration, error) {
	storage, err := EncodeStorage(pool.Storage)
	if err != nil {
		return nil, err
	}
	raw := make([]runtime.RawExtension, 0, len(pods))
	for _, pod := range pods {
		data, err := json.Marshal(pod)
		if err != nil {
			return nil, fmt.Errorf("encoding the pods of StrimziPodSet %s/%s: %w", c.Names.Namespace, c.Names.PodSet(pool.Name), err)
		}
		raw = append(raw, runtime.RawExtension{Raw: data})
	}
	return podsetac.StrimziPodSet(c.Names.PodSet(pool.Name), c.Names.Namespace).
		WithLabels(c.poolLabels(pool)).
		WithAnnotations(map[string]string{StorageAnnotation: storage, KafkaVersionAnnotation: c.Version.Name}).
		WithOwnerReferences(c.ownerReference()).
		WithSpec(podsetac.StrimziPodSetSpec().
			WithSelector(metaac.LabelSelector().WithMatchLabels(c.poolSelector(pool.Name))).
			WithPods(raw...)), nil
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
