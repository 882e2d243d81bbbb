package apitest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fill leaves no room for certificates in the annotations of a pod.
func (w *world) fill(pod string) {
	w.t.Helper()
	limit := 256<<10 - sizeOf(w.pod(pod).Annotations) - len("example.com/full") - 1024
	w.annotate(pod, "example.com/full", strings.Repeat("x", limit))
}

// freeze changes the Secret of a member and makes it immutable.
func (w *world) freeze(member string) {
	w.t.Helper()
	secret := w.secret(w.namespace, member)
	secret.Data["other"] = []byte("other")
	secret.Immutable = new(true)
	if err := w.person.Update(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
}

// another is an owner that is not of the cluster.
func another() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other", Controller: new(true)}}
}

func isReady(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}

func (w *world) lose(member string) {
	w.t.Helper()
	w.delete(w.pod(member))
	w.etcd.Stop(w.t, member)
}

func TestWhatIsInTheWayOfOneMemberKeepsNoOtherFromItsPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trouble func(w *world)
		says    string
	}{
		"its pod has no room for certificates": {func(w *world) { w.fill(first) }, "pod my-cluster-0"},
		"its Secret cannot be written":         {func(w *world) { w.freeze(first) }, "my-cluster-0"},
		"its Secret cannot be written, and its pod is lost": {func(w *world) {
			w.freeze(first)
			w.lose(first)
		}, "my-cluster-0"},
		"its Role is another's": {func(w *world) {
			role := &rbacv1.Role{}
			if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, role); err != nil {
				w.t.Fatal(err)
			}
			role.OwnerReferences = another()
			if err := w.person.Update(w.t.Context(), role); err != nil {
				w.t.Fatal(err)
			}
		}, "Role my-cluster-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(3))
			w.bring()
			c.trouble(w)
			before := w.pod(second).UID
			w.lose(second)
			for range 8 {
				_, _ = w.try() // what cannot be done is tried again
				w.play()
			}
			pod := &corev1.Pod{}
			if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: second}, pod); err != nil || pod.UID == before || !isReady(pod) {
				t.Errorf("%s is not created again: %v; Ready is %+v", second, err, w.condition("Ready"))
			}
			if ready := w.condition("Ready"); ready.Status != "False" || !strings.Contains(ready.Message, c.says) {
				t.Errorf("Ready is %s %s: %s; want something about %q", ready.Status, ready.Reason, ready.Message, c.says)
			}
		})
	}
}

func TestAClaimThatIsNotOfTheClusterKeepsNoOtherMemberFromItsPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-" + third}, claim); err != nil {
		t.Fatal(err)
	}
	claim.OwnerReferences = another()
	if err := w.person.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	before := w.ids()
	w.lose(third)
	w.until("ForeignObject")
	w.lose(second)
	for range 8 {
		_, _ = w.try()
		w.play()
	}
	if after := w.ids(); after[second] != before[second] || after[third] != before[third] {
		t.Errorf("members are %v, and were %v", after, before)
	}
	if pods := w.pods(); len(pods) != 2 {
		t.Errorf("%d pods; Ready is %+v", len(pods), w.condition("Ready"))
	}
}

func TestAllThatIsInTheWayIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.freeze(first)
	w.freeze(third)
	_, _ = w.try()
	message := w.condition("Ready").Message
	for _, member := range []string{first, third} {
		if !strings.Contains(message, "/"+member) {
			t.Errorf("the message does not name %s: %s", member, message)
		}
	}
}
