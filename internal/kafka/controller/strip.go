package controller

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// How much of an object is cached, in bytes and entries. Without limits, each pod that a tenant
// labels as a cluster's may take 1.5 MB. A pod of a node takes 20 KB whole, and 5 KB as cached.
const (
	// maxPin is enough for a node with 64 listeners and two anchors of each authority. A node's
	// pod with a longer pin is read by its name: see complete.
	maxPin = 16 << 10
	// maxGiven is more than publication.Given takes.
	maxGiven = 8 << 10
	// maxAnnotation is more than any other annotation takes.
	maxAnnotation = 2 << 10
	// maxName is the length of the longest name, and maxReference more than an owner takes.
	maxName, maxReference = 253, 1 << 10
	// maxOwners, maxContainers, maxPullSecrets are more than objects of a cluster have.
	maxOwners, maxContainers, maxPullSecrets = 8, 8, 128
)

// cacheTransform calls a function on cached objects of a type, and not on notes that one is gone.
func cacheTransform[T any](keep func(T)) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if whole, is := object.(T); is {
			keep(whole)
		}
		return object, nil
	}
}

// stripMetadata keeps the names of an object, labels that are read, and the owners that say whose it is.
func stripMetadata(object metav1.Object) {
	object.SetAnnotations(nil)
	object.SetManagedFields(nil)
	object.SetFinalizers(nil)
	object.SetLabels(only(object.GetLabels(), []string{
		model.ClusterLabel, model.NameLabel, model.PoolLabel, model.BrokerRoleLabel, model.ControllerRoleLabel,
	}))
	owners := slices.DeleteFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return !isController(owner) && !isOfStrimzi(owner) || owner.Size() > maxReference
	})
	object.SetOwnerReferences(first(owners, maxOwners))
}

// stripSecret keeps no content, should a Secret ever be watched with it.
func stripSecret(object metav1.Object) {
	stripMetadata(object)
	if whole, is := object.(*corev1.Secret); is {
		whole.Data, whole.StringData = nil, nil
	}
}

// stripDeployment keeps the pins of a process beside the nodes.
func stripDeployment(deployment metav1.Object) {
	annotations := truncatedAnnotations(deployment.GetAnnotations(), pinAnnotations())
	stripMetadata(deployment)
	deployment.SetAnnotations(annotations)
}

// stripPodSet keeps whether this operator has applied a pod set.
func stripPodSet(set metav1.Object) {
	applied := kube.Applied(set, fieldOwner)
	stripMetadata(set)
	if applied {
		set.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: string(fieldOwner), Operation: metav1.ManagedFieldsOperationApply}})
	}
}

// stripClaim keeps the size of a claim, and its status, which tenants do not write.
func stripClaim(claim *corev1.PersistentVolumeClaim) {
	annotations, size := truncatedAnnotations(claim.Annotations, []string{model.ClusterIDAnnotation, deleteClaimAnnotation}), claim.Spec.Resources.Requests[corev1.ResourceStorage]
	stripMetadata(claim)
	claim.Annotations, claim.Spec = annotations, corev1.PersistentVolumeClaimSpec{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
}

// stripNodePod keeps of the pod of a node what stripPod does, and its pin whatever its length.
func stripNodePod(pod *corev1.Pod) {
	pin, pinned := pod.Annotations[agent.PinAnnotation]
	stripPod(pod)
	if pinned {
		pod.Annotations[agent.PinAnnotation] = pin
	}
}

// stripPod keeps the annotations that something follows from, the first few that are reported because they have no effect,
// and where the pod is and how. Messages are dropped: they contain a tenant's names of images and containers.
func stripPod(pod *corev1.Pod) {
	annotations := truncatedAnnotations(pod.Annotations, model.ReadOfPods())
	for _, idle := range model.IdlePodAnnotations(pod.Annotations) {
		annotations[idle.Key] = excerpt.Of(idle.Value, excerpt.Value)
	}
	stripMetadata(pod)
	secrets := slices.DeleteFunc(pod.Spec.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return len(s.Name) > maxName })
	pod.Annotations, pod.Spec = annotations, corev1.PodSpec{NodeName: pod.Spec.NodeName, ImagePullSecrets: first(secrets, maxPullSecrets)}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions,
		InitContainerStatuses: containers(pod.Status.InitContainerStatuses), ContainerStatuses: containers(pod.Status.ContainerStatuses),
	}
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Message = ""
	}
}

// containers keeps which of the first containers run, and what the others wait for.
func containers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	kept := make([]corev1.ContainerStatus, min(len(all), maxContainers))
	for i := range kept {
		kept[i].ContainerID = all[i].ContainerID
		if waiting := all[i].State.Waiting; waiting != nil {
			kept[i].State.Waiting = &corev1.ContainerStateWaiting{Reason: waiting.Reason}
		}
	}
	return kept
}

// truncatedAnnotations is the annotations with the keys, cut to more than the operator and its agents write.
func truncatedAnnotations(all map[string]string, keys []string) map[string]string {
	kept := only(all, keys)
	for key, value := range kept {
		limit := maxAnnotation
		switch {
		case slices.Contains(pinAnnotations(), key):
			limit = maxPin
		case slices.Contains(agent.PublicationAnnotations(), key):
			limit = maxGiven
		}
		kept[key] = excerpt.Of(value, limit)
	}
	return kept
}

// only is the entries with the keys.
func only(entries map[string]string, keys []string) map[string]string {
	left := map[string]string{}
	for _, key := range keys {
		if value, found := entries[key]; found {
			left[key] = value
		}
	}
	return left
}

// first is a copy of the first so many entries, without the memory of the others.
func first[T any](all []T, count int) []T { return slices.Clone(all[:min(len(all), count)]) }

func isTruncated(text string) bool { return strings.HasSuffix(text, excerpt.Ellipsis) }
