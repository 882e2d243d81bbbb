package controller

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/publication"
)

// podOf translates a pod into what the rollout planner knows of pods. A pod
// that is not there is nil.
func podOf(pod *corev1.Pod) rollout.Pod {
	if pod == nil {
		return rollout.Pod{State: rollout.Missing}
	}
	p := rollout.Pod{UID: rollout.UID(pod.UID)}
	if pod.DeletionTimestamp != nil {
		p.State, p.Since = rollout.Terminating, pod.DeletionTimestamp.Time
		return p
	}
	if reason, stuck := stuckReason(pod); stuck {
		p.State, p.StuckReason = rollout.Stuck, reason
		p.Since = since(pod, corev1.PodReady)
		return p
	}
	p.State, p.Since = rollout.Unready, since(pod, corev1.PodReady)
	if conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) {
		p.State = rollout.Ready
	}
	return p
}

// rolled is the pod of a node as the rollout planner sees it. A pod that presents expired certificates
// is stuck even if it is ready: nodes and the operator cannot open new connections to it, and its server
// rejects new stores, because it tests them with the expired ones. Only a restart with a valid one helps.
func (c *applied) rolled(name string) rollout.Pod {
	pod := podOf(c.pods[name])
	if pod.State == rollout.Ready && c.shutOff(name) {
		pod.State, pod.StuckReason = rollout.Stuck, reasonCertificatesExpired
	}
	return pod
}

// shutOff reports whether all listeners of a node that other nodes and the operator
// connect to are known to present certificates that have ended, while its Secret holds
// one that has not.
func (c *applied) shutOff(name string) bool {
	reported, ended := c.reports[name], false
	certificates, issued := c.nodes[name]
	if !reported.known || !issued || !c.now.Before(certificates.leaf.NotAfter) {
		return false
	}
	for _, listener := range []publication.Role{contract.ControlPlaneListener, contract.ReplicationListener} {
		loaded, runs := reported.report.Roles[listener]
		if !runs {
			continue
		}
		end := evidence.LeafEnd(reported.report, loaded)
		if end.IsZero() || c.now.Before(end) {
			return false
		}
		ended = true
	}
	return ended
}

// stuckReason names a state that a pod does not leave by itself.
func stuckReason(pod *corev1.Pod) (string, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason, true
		}
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, status := range statuses {
		if status.State.Waiting != nil && waitsForAPerson(status.State.Waiting.Reason) {
			return status.State.Waiting.Reason, true
		}
	}
	return "", false
}

// waitsForAPerson lists the kubelet's reasons for a container that does not
// start (kubelet: pkg/kubelet/images and pkg/kubelet/container).
func waitsForAPerson(reason string) bool {
	return slices.Contains([]string{
		"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	}, reason)
}

func conditionIs(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == status
	})
}

// since is when the condition last changed, or when the pod was made.
func since(pod *corev1.Pod, kind corev1.PodConditionType) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
