package controller

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// strimziGroups end the API groups of all resources whose objects carry the label of a
// cluster: Kafkas, users, Connect clusters, and what gives access to them.
const strimziGroups = ".strimzi.io"

// isOurs reports whether an object belongs to this cluster: its Kafka owns it, or it
// carries the label that names the cluster and has no other owner. Every object that
// enters the observation is checked.
func (o *observation) isOurs(object metav1.Object) bool {
	if otherOwner(object, o) != nil {
		return false
	}
	return o.isOwned(object) || object.GetLabels()[model.ClusterLabel] == o.kafka.Name
}

// isOwned reports whether the Kafka owns an object.
func (o *observation) isOwned(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == o.kafka.UID })
}

// otherOwner is the owner of an object in place of the Kafka, nil if there is none. Any other
// controller counts. A Strimzi resource counts even if it is not the controller, except a
// Kafka of the same name, which is a deleted predecessor.
func otherOwner(object metav1.Object, o *observation) *metav1.OwnerReference {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != o.kafka.UID {
		return owner
	}
	owners := object.GetOwnerReferences()
	i := slices.IndexFunc(owners, func(owner metav1.OwnerReference) bool {
		former := owner.Kind == kafkaKind().Kind && owner.Name == o.kafka.Name
		return isOfStrimzi(owner) && owner.UID != o.kafka.UID && !former
	})
	if i < 0 || o.isOwned(object) {
		return nil
	}
	return &owners[i]
}

func isController(owner metav1.OwnerReference) bool {
	return owner.Controller != nil && *owner.Controller
}

func isOfStrimzi(owner metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return strings.HasSuffix(group, strimziGroups)
}

// isUnmarked reports whether an object has neither an owner nor the label of a cluster. If the
// operator has written it, its present purpose is unknown, so the operator leaves it unchanged.
// What it says about the cluster is still true.
func isUnmarked(object metav1.Object) bool {
	return len(object.GetOwnerReferences()) == 0 && object.GetLabels()[model.ClusterLabel] == ""
}

// describeOwner describes the apparent owner of a foreign object.
func (o *observation) describeOwner(object metav1.Object) string {
	if owner := otherOwner(object, o); owner != nil {
		return fmt.Sprintf("belongs to %s %s", owner.Kind, owner.Name)
	}
	switch cluster := object.GetLabels()[model.ClusterLabel]; cluster {
	case "":
		return "it is not marked as belonging to this cluster"
	case o.kafka.Name:
		return "it was made by another operator"
	default:
		return "carries the label of cluster " + cluster
	}
}

// takePodSet adds a pod set that is the cluster's and that this operator has applied: of
// others no pods are made. One that another operator has made for this Kafka is kept apart:
// it tells who runs the cluster.
func (o *observation) takePodSet(set *podsetv1.StrimziPodSet) {
	applied, ours := kube.Applied(set, fieldOwner), o.isOurs(set)
	switch {
	case applied && (ours || isUnmarked(set)):
		o.podSets[set.Name] = *set
		delete(o.anothersSets, set.Name) // of which the cache may still have told
	case !applied && ours:
		o.anothersSets[set.Name] = o.isOwned(set) || o.isOfPool(set)
	}
}

// takeOwner adds a pod set that pods of the cluster belong to. While these pods run, a trace of this
// operator is enough if the set's writer is unknown. Without pods it is not: another client may copy
// a set, and its nodes would be created, occupy ids, and be waited for.
func (o *observation) takeOwner(set *podsetv1.StrimziPodSet) {
	if !kube.Applied(set, fieldOwner) && o.isOurs(set) && isTraced(set) {
		o.podSets[set.Name] = *set
		delete(o.anothersSets, set.Name)
		return
	}
	o.takePodSet(set)
}

// isOfPool reports whether a pod set has the name of that of a pool.
func (o *observation) isOfPool(set *podsetv1.StrimziPodSet) bool {
	return slices.ContainsFunc(o.pools, func(p *pool) bool { return o.names().PodSet(p.Name) == set.Name })
}

// isTraced reports whether a pod set, or a pod that it describes, bears a trace of this
// operator. Other clients may have written the trace.
func isTraced(set *podsetv1.StrimziPodSet) bool {
	if _, recorded := set.Annotations[model.NodesAnnotation]; recorded {
		return true
	}
	return slices.ContainsFunc(readPods(set), func(d describedPod) bool {
		_, pinned := d.pod.Annotations[agent.PinAnnotation]
		return pinned
	})
}
