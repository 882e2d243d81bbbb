package apitest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// With which Secrets the images of nodes are pulled.

// pulling is the template of pods with pull Secrets.
func pulling(names ...string) map[string]any {
	secrets := []any{}
	for _, name := range names {
		secrets = append(secrets, map[string]any{"name": name})
	}
	return map[string]any{"template": map[string]any{"pod": map[string]any{"imagePullSecrets": secrets}}}
}

// wantPulledWith fails the test unless pods have these Secrets, separated by commas.
func (w *world) wantPulledWith(want map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for name := range want {
		var pod corev1.Pod
		w.get(name, &pod)
		var names []string
		for _, secret := range pod.Spec.ImagePullSecrets {
			names = append(names, secret.Name)
		}
		got[name] = strings.Join(names, ",")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("pull Secrets (-want +got):\n%s", diff)
	}
}

func TestAChangeOfPullSecretsRestartsNoNodeAndALostOneComesBackWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	w.settings.PullSecrets = []corev1.LocalObjectReference{{Name: "operators"}}
	w.startOperator()
	w.settle()
	w.losePod("my-dual-0")
	w.settle()
	w.patchKafka(pulling("kafkas"))
	w.settle()
	w.losePod("my-dual-1")
	w.settle()

	w.wantPulledWith(map[string]string{"my-dual-0": "operators", "my-dual-1": "kafkas", "my-dual-2": ""})
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("%v were restarted, want none", w.faulty.podsDeleted)
	}
	w.patchPool("dual", pulling("kafkas", "Not_a_name"))
	w.run(20)
	w.wantReason(condition.NotReady, "InvalidResourceException", "spec.template.pod.imagePullSecrets", "Not_a_name")
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("%v were restarted for a name that is wrong, want none", w.faulty.podsDeleted)
	}
}

func TestANodeThatWaitsForItsImageNamesItsPullSecretAndGetsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settings.PullSecrets = []corev1.LocalObjectReference{{Name: "old"}}
	w.startOperator()
	w.dualRole(3)
	w.settle()
	w.lag["my-dual-1"] = stopped
	w.losePod("my-dual-1")
	w.run(5)
	w.pullInVain("my-dual-1")
	w.run(5)
	w.wantReason(condition.NotReady, "PodsNotReady", "my-dual-1", "ImagePullBackOff", "pull Secret old:")

	w.patchKafka(pulling("new"))
	w.run(5)

	w.wantPulledWith(map[string]string{"my-dual-0": "old", "my-dual-1": "new", "my-dual-2": "old"})
	if diff := cmp.Diff([]string{"my-dual-1"}, w.faulty.podsDeleted); diff != "" {
		t.Errorf("restarted (-want +got):\n%s", diff)
	}
	delete(w.lag, "my-dual-1")
	w.settle()
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
}

func TestTheUserOperatorBesideTheNodesHasPullSecrets(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	w.settings.PullSecrets = []corev1.LocalObjectReference{{Name: "operators"}}
	w.startOperator()
	w.settle()

	deployment := &appsv1.Deployment{}
	w.get(entityOperatorName, deployment)
	if secrets := deployment.Spec.Template.Spec.ImagePullSecrets; len(secrets) != 1 || secrets[0].Name != "operators" {
		t.Errorf("the pull Secrets are %v, want that of the operator", secrets)
	}
}

// losePod is the death of the machine of a pod.
func (w *world) losePod(name string) {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.get(name, pod)
	w.endPod(w.t.Context(), pod)
}

// pullInVain is what the kubelet tells of a pod whose image it is not given.
func (w *world) pullInVain(name string) {
	w.t.Helper()
	var pod corev1.Pod
	w.get(name, &pod)
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "keyturn-init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}
	if err := w.api.Status().Update(w.t.Context(), &pod); err != nil {
		w.t.Fatal(err)
	}
}
