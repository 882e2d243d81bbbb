package controller

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/idle"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// How much is kept of an object, whatever it holds. Anybody may label what he likes as a
// cluster's.
const (
	// maxText is the length of the longest name in Kubernetes. No word that is read of an
	// object is longer.
	maxText = 253
	// maxPin is enough for a node with 64 listeners and two anchors of each authority. The
	// pod of one with more is read by its name: see complete.
	maxPin = 16 << 10
	// maxGiven is more than publication.Given takes.
	maxGiven = 8 << 10
	// maxCompanionPin and maxCompanionGiven are enough for a process beside the nodes, which has one role in one domain.
	maxCompanionPin, maxCompanionGiven = 4 << 10, 3 << 10
	// maxAnnotation is more than any other annotation takes.
	maxAnnotation = 2 << 10
	// maxIdleValue is more than is told of an annotation that has no effect.
	maxIdleValue = 128
	// maxOwners, maxContainers, maxPullSecrets are more than objects of a cluster have.
	maxOwners, maxContainers, maxPullSecrets = 8, 8, 128
)

// keeping leaves of an object what is read of it: its name and version, labels that
// something follows from, its first owners, the annotations that are kept, and what says how
// a pod or a claim is.
func keeping(annotations func(map[string]string) map[string]string) toolscache.TransformFunc {
	return func(object any) (any, error) {
		metadata, is := object.(metav1.Object)
		if !is {
			return object, nil // a note that one is gone
		}
		keepMetadata(metadata, annotations)
		switch whole := object.(type) {
		case *corev1.Pod:
			leavePod(whole)
		case *corev1.PersistentVolumeClaim:
			leaveClaim(whole)
		case *corev1.Secret:
			whole.Data, whole.StringData = nil, nil
		}
		return object, nil
	}
}

// keepPod leaves of a pod that is read past the cache what the cache keeps of one.
func keepPod(pod *corev1.Pod) {
	keepMetadata(pod, podAnnotations)
	leavePod(pod)
}

// keepNode leaves of the pod of a node the same, and its pin whatever its length.
func keepNode(pod *corev1.Pod) {
	pin, pinned := pod.Annotations[agent.PinAnnotation]
	keepPod(pod)
	if pinned {
		pod.Annotations[agent.PinAnnotation] = pin
	}
}

func keepMetadata(object metav1.Object, annotations func(map[string]string) map[string]string) {
	object.SetAnnotations(annotations(object.GetAnnotations()))
	object.SetManagedFields(nil)
	leaveMetadata(object)
}

// keepingWriters leaves of a pod set that it exists, to whom it says that it belongs, and
// whether this operator has written it, and how. What it describes is read by its name, and
// only if it is one of this operator's.
func keepingWriters(object any) (any, error) {
	set, is := object.(metav1.Object)
	if !is {
		return object, nil
	}
	var own []metav1.ManagedFieldsEntry
	for _, entry := range set.GetManagedFields() {
		known := slices.ContainsFunc(own, func(e metav1.ManagedFieldsEntry) bool { return e.Operation == entry.Operation })
		if kube.Writes(entry, fieldOwner) && !known {
			own = append(own, metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation})
		}
	}
	set.SetManagedFields(own)
	set.SetAnnotations(nil)
	leaveMetadata(set)
	return object, nil
}

// leaveMetadata leaves labels that are read and the first owners.
func leaveMetadata(object metav1.Object) {
	object.SetGenerateName("")
	object.SetFinalizers(nil)
	object.SetLabels(only(object.GetLabels(), []string{
		model.ClusterLabel, model.NameLabel, model.PoolLabel, model.BrokerRoleLabel, model.ControllerRoleLabel,
	}))
	object.SetOwnerReferences(firstOwners(object.GetOwnerReferences()))
}

// firstOwners are as many as are kept. Of more, those come first that tell whose an object is.
func firstOwners(owners []metav1.OwnerReference) []metav1.OwnerReference {
	if len(owners) > maxOwners {
		tells := func(owner metav1.OwnerReference) int {
			if isController(owner) || isOfStrimzi(owner) {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(owners, func(a, b metav1.OwnerReference) int { return tells(a) - tells(b) })
		owners = slices.Clone(owners[:maxOwners])
	}
	for i := range owners {
		owner := &owners[i]
		owner.APIVersion, owner.Kind = short(owner.APIVersion), short(owner.Kind)
		owner.Name, owner.UID = short(owner.Name), types.UID(short(string(owner.UID)))
	}
	return owners
}

// leavePod leaves of a pod what says where it is and how it is.
func leavePod(pod *corev1.Pod) {
	status := corev1.PodStatus{
		Phase: corev1.PodPhase(short(string(pod.Status.Phase))), PodIP: short(pod.Status.PodIP),
		InitContainerStatuses: containers(pod.Status.InitContainerStatuses),
		ContainerStatuses:     containers(pod.Status.ContainerStatuses),
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReady} {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
		if i < 0 {
			continue
		}
		condition := &pod.Status.Conditions[i]
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionStatus(short(string(condition.Status))), Reason: short(condition.Reason),
			LastTransitionTime: condition.LastTransitionTime,
		})
	}
	pod.Spec, pod.Status = corev1.PodSpec{NodeName: short(pod.Spec.NodeName), ImagePullSecrets: secretsOf(pod)}, status
}

// secretsOf are the first pull Secrets of a pod: more than any template has.
func secretsOf(pod *corev1.Pod) []corev1.LocalObjectReference {
	secrets := slices.Clone(pod.Spec.ImagePullSecrets[:min(len(pod.Spec.ImagePullSecrets), maxPullSecrets)])
	for i := range secrets {
		secrets[i].Name = short(secrets[i].Name)
	}
	return secrets
}

// containers are which of the first containers run, and what the others wait for.
func containers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	all = all[:min(len(all), maxContainers)]
	left := make([]corev1.ContainerStatus, 0, len(all))
	for i := range all {
		status := corev1.ContainerStatus{ContainerID: short(all[i].ContainerID)}
		if waiting := all[i].State.Waiting; waiting != nil {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: short(waiting.Reason)}
		}
		left = append(left, status)
	}
	return left
}

// leaveClaim leaves of a claim its size, and whether its file system waits to grow.
func leaveClaim(claim *corev1.PersistentVolumeClaim) {
	var spec corev1.PersistentVolumeClaimSpec
	if size, asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]; asked {
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: size}
	}
	var status corev1.PersistentVolumeClaimStatus
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && len(status.Conditions) == 0 {
			status.Conditions = append(status.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: c.Type, Status: corev1.ConditionStatus(short(string(c.Status))), LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	claim.Spec, claim.Status = spec, status
}

// none keeps no annotation.
func none(map[string]string) map[string]string { return nil }

// reading keeps the annotations with the keys, cut to more than any honest one has.
func reading(keys ...string) func(map[string]string) map[string]string {
	return func(all map[string]string) map[string]string {
		kept := only(all, keys)
		for key, value := range kept {
			kept[key] = cut(value, longest(key))
		}
		return kept
	}
}

// longest is how much is kept of an annotation.
func longest(key string) int {
	switch key {
	case agent.PinAnnotation:
		return maxPin
	case agent.AnnotationOf(agent.TopicOperator, agent.PinAnnotation):
		return maxCompanionPin
	case agent.AnnotationOf(agent.TopicOperator, agent.GivenAnnotation):
		return maxCompanionGiven
	case agent.GivenAnnotation:
		return maxGiven
	default:
		return maxAnnotation
	}
}

// podAnnotations keeps those that something follows from, and the first few of the others
// that somebody may have meant for the operator, because he is told.
func podAnnotations(all map[string]string) map[string]string {
	read := model.ReadOfPods()
	kept := reading(read...)(all)
	unread := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(key string) bool {
		return !authorities.OwnKey(key) || slices.Contains(read, key)
	})
	for _, key := range unread[:min(len(unread), idle.Max)] {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = cut(all[key], maxIdleValue)
	}
	return kept
}

// only are the entries with the keys, nil if there are none.
func only(entries map[string]string, keys []string) map[string]string {
	var left map[string]string
	for _, key := range keys {
		if value, found := entries[key]; found {
			if left == nil {
				left = map[string]string{}
			}
			left[key] = value
		}
	}
	return left
}

// cut is a text that is kept if it is not too long, and its beginning otherwise: nobody takes
// that for the whole.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return excerpt.Of(text, bytes)
}

func wasCut(text string) bool { return strings.HasSuffix(text, excerpt.Ellipsis) }

func short(text string) string { return cut(text, maxText) }
