package apitest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// pullWith starts an operator with a pull Secret.
func (w *world) pullWith(secret string) {
	w.settings.PullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	w.restart()
}

// pulledWith are the pull Secrets of pods, separated by commas.
func (w *world) pulledWith() map[string]string {
	w.t.Helper()
	secrets := map[string]string{}
	pods := w.pods()
	for i := range pods {
		var names []string
		for _, secret := range pods[i].Spec.ImagePullSecrets {
			names = append(names, secret.Name)
		}
		secrets[pods[i].Name] = strings.Join(names, ",")
	}
	return secrets
}

func TestAChangeOfPullSecretsRestartsNoMemberAndALostOneComesBackWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before := w.podUIDs()

	w.pullWith("registry-credentials")
	w.atRest()
	if diff := cmp.Diff(before, w.podUIDs()); diff != "" {
		t.Errorf("members were restarted (-before +after):\n%s", diff)
	}
	w.lose("my-cluster-1")
	w.bring()

	want := map[string]string{"my-cluster-0": "", "my-cluster-1": "registry-credentials", "my-cluster-2": ""}
	if diff := cmp.Diff(want, w.pulledWith()); diff != "" {
		t.Errorf("pull Secrets (-want +got):\n%s", diff)
	}
}

func TestAMemberThatWaitsForItsImageNamesItsPullSecretAndGetsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.pullWith("old")
	w.reconcile()
	pod := w.pod("my-cluster-0")
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "keyturn-init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}
	if err := w.kubelet.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	ready := w.condition(etcdv1beta2.ConditionReady)
	if ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "Member my-cluster-0: its image cannot be pulled with pull Secret old:") {
		t.Errorf("the condition is %+v, want one that names the pull Secret", ready)
	}
	w.atRest()

	w.pullWith("new")
	w.bring()

	if diff := cmp.Diff(map[string]string{"my-cluster-0": "new"}, w.pulledWith()); diff != "" {
		t.Errorf("pull Secrets (-want +got):\n%s", diff)
	}
}
