package podset

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
)

// setUID is the identity of the set in all tests.
const setUID = types.UID("the-set")

// setOf describes pods of the present revision.
func setOf(t *testing.T, names ...string) *podsetv1.StrimziPodSet {
	t.Helper()
	set := &podsetv1.StrimziPodSet{ObjectMeta: metav1.ObjectMeta{
		Name: "set", Namespace: "ns", UID: setUID, Generation: 3,
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: string(maker().FieldOwner), Operation: metav1.ManagedFieldsOperationApply,
			APIVersion: podsetv1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:pods":{}}}`),
		}},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: maker().Owner.Kind, Name: ownerOfSets().Name, UID: ownerOfSets().UID,
		}},
	}}
	for _, name := range names {
		raw, err := json.Marshal(corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{RevisionAnnotation: "present"}},
			Spec:       corev1.PodSpec{ServiceAccountName: maker().ServiceAccount(ownerOfSets().Name)},
		})
		if err != nil {
			t.Fatal(err)
		}
		set.Spec.Pods = append(set.Spec.Pods, runtime.RawExtension{Raw: raw})
	}
	return set
}

// podOf is a running, ready pod of the set and of the present revision.
func podOf(name string, changes ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", Annotations: map[string]string{RevisionAnnotation: "present"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StrimziPodSet", Name: "set", UID: setUID, Controller: new(true)}},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(&pod)
	}
	return pod
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Conditions = phase, nil
	}
}

func terminating(pod *corev1.Pod) {
	pod.DeletionTimestamp = new(metav1.NewTime(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func outdated(pod *corev1.Pod)    { pod.Annotations[RevisionAnnotation] = "older" }
func ownedByNone(pod *corev1.Pod) { pod.OwnerReferences = nil }

func ownedByAnother(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "a-set-of-the-same-name" }

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		observed       []corev1.Pod
		create, remove []string
		// counts are pods, ready ones, and ones of the present revision.
		counts [3]int32
		// foreign is named in a condition.
		foreign string
	}{
		"a pod that is missing is created": {
			observed: []corev1.Pod{podOf("a")},
			create:   []string{"b"}, counts: [3]int32{1, 1, 1},
		},
		"nothing is done when all are there": {
			observed: []corev1.Pod{podOf("a"), podOf("b")},
			counts:   [3]int32{2, 2, 2},
		},
		"a pod that has failed is cleared away and not made in the same pass": {
			observed: []corev1.Pod{podOf("a"), podOf("b", inPhase(corev1.PodFailed))},
			remove:   []string{"b"}, counts: [3]int32{2, 1, 2},
		},
		"a pod that has ended well is cleared away, too": {
			observed: []corev1.Pod{podOf("a", inPhase(corev1.PodSucceeded)), podOf("b")},
			remove:   []string{"a"}, counts: [3]int32{2, 1, 2},
		},
		"an ended pod that is going already is not deleted again": {
			observed: []corev1.Pod{podOf("a"), podOf("b", inPhase(corev1.PodFailed), terminating)},
			counts:   [3]int32{2, 1, 2},
		},
		"a running pod of another revision is left running": {
			observed: []corev1.Pod{podOf("a"), podOf("b", outdated)},
			counts:   [3]int32{2, 2, 1},
		},
		"a pod that does not run yet is left alone": {
			observed: []corev1.Pod{podOf("a"), podOf("b", inPhase(corev1.PodPending))},
			counts:   [3]int32{2, 1, 2},
		},
		"a terminating pod is neither ready nor replaced before it is gone": {
			observed: []corev1.Pod{podOf("a"), podOf("b", terminating)},
			counts:   [3]int32{2, 1, 2},
		},
		"a pod that belongs to nobody is left alone and named": {
			observed: []corev1.Pod{podOf("a"), podOf("b", ownedByNone)},
			counts:   [3]int32{1, 1, 1}, foreign: "b",
		},
		"a failed pod of another set is not cleared away": {
			observed: []corev1.Pod{podOf("a", ownedByAnother, inPhase(corev1.PodFailed)), podOf("b")},
			counts:   [3]int32{1, 1, 1}, foreign: "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decide(setOf(t, "a", "b"), c.observed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.create, names(got.create)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.remove, names(got.remove)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			status := got.status
			if counts := [3]int32{status.Pods, status.ReadyPods, status.CurrentPods}; counts != c.counts {
				t.Errorf("counts are %v, want %v", counts, c.counts)
			}
			if status.ObservedGeneration != 3 {
				t.Errorf("observed generation %d, want that of the set", status.ObservedGeneration)
			}
			wantForeign(t, status.Conditions, c.foreign)
		})
	}
}

func wantForeign(t *testing.T, conditions []condition.Condition, name string) {
	t.Helper()
	if name == "" {
		if len(conditions) != 0 {
			t.Errorf("conditions are %+v, want none", conditions)
		}
		return
	}
	if len(conditions) != 1 || conditions[0].Type != condition.NotReady || conditions[0].Reason != "ForeignPod" ||
		!strings.HasPrefix(conditions[0].Message, "pod "+name+" was not created") {
		t.Errorf("conditions are %+v, want one that names %s alone", conditions, name)
	}
}

func names(pods []corev1.Pod) []string {
	var list []string
	for i := range pods {
		list = append(list, pods[i].Name)
	}
	return list
}

func TestCreatedPodsLiveInTheNamespaceOfTheirSet(t *testing.T) {
	t.Parallel()
	got, err := decide(setOf(t, "a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.create) != 1 || got.create[0].Namespace != "ns" {
		t.Errorf("creates %+v, want a pod in ns", got.create)
	}
}

func TestAForeignPodStaysNamedSinceItWasFirstSeen(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a", "b")
	set.Status.Conditions = []condition.Condition{
		{Type: condition.NotReady, Reason: "SomethingElse", LastTransitionTime: "2026-01-01T00:00:00Z"},
		{Type: condition.NotReady, Reason: "ForeignPod", LastTransitionTime: "2026-02-02T00:00:00Z"},
	}
	got, err := decide(set, []corev1.Pod{podOf("b", ownedByNone), podOf("a", ownedByNone)})
	if err != nil {
		t.Fatal(err)
	}
	c := got.status.Conditions[0]
	if c.LastTransitionTime != "2026-02-02T00:00:00Z" {
		t.Errorf("the condition began at %q, want the time that it had", c.LastTransitionTime)
	}
	const want = "pods a, b were not created by this StrimziPodSet, which cannot create its own under those names: " +
		"delete them, or restore their owner reference"
	if c.Message != want {
		t.Errorf("the message is %q, want both pods in order, and what can be done: %q", c.Message, want)
	}
}

func TestASetWhoseDescriptionCannotBeReadIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a")
	set.Spec.Pods[0].Raw = []byte("{")
	if _, err := decide(set, nil); err == nil || !strings.Contains(err.Error(), "ns/set") {
		t.Errorf("error is %v, want one that names the set", err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"the kubelet says so":                         {podOf("a"), true},
		"the kubelet has said nothing":                {podOf("a", inPhase(corev1.PodRunning)), false},
		"it is asked to stop and still ready":         {podOf("a", terminating), false},
		"the kubelet says no":                         {podOf("a", unready), false},
		"another condition is true and ready is none": {podOf("a", onlyScheduled), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Ready(&c.pod); got != c.want {
				t.Errorf("ready is %t, want %t", got, c.want)
			}
		})
	}
}

func unready(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func onlyScheduled(pod *corev1.Pod) { pod.Status.Conditions[0].Type = corev1.PodScheduled }
