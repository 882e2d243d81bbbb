package controller

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// growthPatience is how long a kubelet may take to grow a file system under the pod
// that uses it. Most can, within its next look at the volumes of the pod.
const growthPatience = 3 * time.Minute

// growthReasons are the volumes of a node that have grown, and whose file systems
// grow only when they are mounted the next time. A pod that was made since has
// mounted them, whatever the claims still say.
func (c *desired) growthReasons(node model.Node, pod *corev1.Pod) []rollout.Reason {
	var reasons []rollout.Reason
	for _, wanted := range c.cluster.PersistentVolumeClaims(node) {
		claim, exists := c.claims[*wanted.Name]
		if !exists {
			continue
		}
		since, waits := waitsForMount(claim)
		if !waits || pod.CreationTimestamp.After(since) {
			continue
		}
		if due := since.Add(growthPatience); c.now.Before(due) {
			c.wake(due)
			continue
		}
		reasons = append(reasons, rollout.Reason{
			Code: rollout.VolumeResized, Note: "the file system of claim " + claim.Name + " grows when the pod is restarted",
		})
	}
	return reasons
}

// waitsForMount says since when the file system of a claim waits for being mounted.
func waitsForMount(claim *corev1.PersistentVolumeClaim) (since time.Time, waits bool) {
	for _, condition := range claim.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// keepsSize reports whether an error says no more than that a volume which exists is
// refused to grow. A person has to see to it; everything else goes on.
func (o *observation) keepsSize(object intended, err error) bool {
	claim, exists := o.claims[object.name]
	if !exists || object.kind != claimKind().GroupKind() {
		return false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return false
	}
	o.note("PersistentVolumeClaim "+claim.Name, model.ReasonStorage, fmt.Sprintf(
		"the volume keeps its size of %s, because Kubernetes refuses the change: %s; change the size back, or allow volume expansion in the storage class",
		claim.Spec.Resources.Requests.Storage(), answer.Status().Message))
	return true
}
