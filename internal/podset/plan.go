package podset

import (
	"encoding/json"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// RevisionAnnotation carries, on a pod, the digest of the description it was
// created from. A pod whose digest is that of its present description is current.
const RevisionAnnotation = "strimzi.io/revision"

// reasonForeignPod is the reason of the condition that an unrelated pod has the name of one of the set's
// own.
const reasonForeignPod = "ForeignPod"

// plan is what one pass does to a set: pods to create, ended pods to clear away,
// and the status to report.
type plan struct {
	create []corev1.Pod
	remove []corev1.Pod
	status podsetv1.StrimziPodSetStatus
}

// decide compares the described pods with the observed ones of the same names.
func decide(set *podsetv1.StrimziPodSet, observed []corev1.Pod) (plan, error) {
	described, err := describedPods(set)
	if err != nil {
		return plan{}, err
	}
	byName := make(map[string]*corev1.Pod, len(observed))
	for i := range observed {
		byName[observed[i].Name] = &observed[i]
	}
	p := plan{status: podsetv1.StrimziPodSetStatus{ObservedGeneration: set.Generation}}
	var foreign []string
	for i := range described {
		pod, exists := byName[described[i].Name]
		switch {
		case !exists:
			p.create = append(p.create, described[i])
		case !metav1.IsControlledBy(pod, set):
			foreign = append(foreign, pod.Name)
		default:
			p.account(&described[i], pod)
		}
	}
	p.status.Conditions = conditions(foreign, set.Status.Conditions)
	return p, nil
}

func (p *plan) account(described, pod *corev1.Pod) {
	if ended(pod) && pod.DeletionTimestamp.IsZero() {
		p.remove = append(p.remove, *pod)
	}
	p.status.Pods++
	if Ready(pod) {
		p.status.ReadyPods++
	}
	if pod.Annotations[RevisionAnnotation] == described.Annotations[RevisionAnnotation] {
		p.status.CurrentPods++
	}
}

func describedPods(set *podsetv1.StrimziPodSet) ([]corev1.Pod, error) {
	pods := make([]corev1.Pod, len(set.Spec.Pods))
	for i, raw := range set.Spec.Pods {
		if err := json.Unmarshal(raw.Raw, &pods[i]); err != nil {
			return nil, fmt.Errorf("reading pod %d of StrimziPodSet %s/%s: %w", i, set.Namespace, set.Name, err)
		}
		pods[i].Namespace = set.Namespace
	}
	return pods, nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ready reports whether the kubelet says that the pod is ready and it is not being deleted.
func Ready(pod *corev1.Pod) bool {
	if !pod.DeletionTimestamp.IsZero() {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func conditions(foreign []string, before []condition.Condition) []condition.Condition {
	if len(foreign) == 0 {
		return nil
	}
	sort.Strings(foreign)
	return notReady(reasonForeignPod, fmt.Sprintf(excerpt.Numbered(len(foreign),
		"pod %s was not created by this StrimziPodSet, which cannot create its own under that name: delete it, or restore its owner reference",
		"pods %s were not created by this StrimziPodSet, which cannot create its own under those names: delete them, or restore their owner reference",
	), excerpt.List(foreign, ", ", excerpt.Listed)), before)
}

// shownRefusals is how much of the reasons a status tells.
const shownRefusals = 4 * excerpt.Listed

// refusal says why the missing pods of a set are not made. Each reason says what can be
// done about it.
func refusal(why []string, before []condition.Condition) []condition.Condition {
	if len(why) == 0 {
		return nil
	}
	return notReady(reasonRefused, excerpt.List(why, "; ", shownRefusals)+"; until then the missing pods are not created", before)
}

// notReady is a condition that began when the status had it first.
func notReady(reason, message string, before []condition.Condition) []condition.Condition {
	c := condition.Condition{Type: condition.NotReady, Status: condition.True, Reason: reason, Message: message}
	for _, old := range before {
		if old.Type == c.Type && old.Reason == c.Reason {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return []condition.Condition{c}
}
