package apitest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// What somebody can do who may write StrimziPodSets, and no pods.

// operatorsName is the field manager of the operator, which anybody may use.
const operatorsName = client.FieldOwner("keyturn-kafka")

// evilPod asks for what no node has.
const evilPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "evil", "labels": {"app": "x"}}, "spec": {
  "serviceAccountName": "my-kafka", "automountServiceAccountToken": true, "nodeName": "control-plane", "containers": [{
    "name": "kafka", "image": "evil", "ports": [{"containerPort": 443, "hostPort": 443}], "securityContext": {"runAsUser": 0},
    "volumeMounts": [{"name": "data", "mountPath": "/ca"}]}],
  "volumes": [{"name": "data", "secret": {"secretName": "my-cluster-ca"}}]}}`

// lookAtSets is a pass of the pod set controller before the operator has seen anything.
func (w *world) lookAtSets() {
	w.t.Helper()
	if err := w.keepPods(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// wantRefused expects a set to say why its pods are not made.
func (w *world) wantRefused(name, says string) {
	w.t.Helper()
	var set podsetv1.StrimziPodSet
	w.get(name, &set)
	for _, c := range set.Status.Conditions {
		if c.Reason == "PodsRefused" && strings.Contains(c.Message, says) {
			return
		}
	}
	w.t.Errorf("the conditions of StrimziPodSet %s are %+v, want PodsRefused with %q", name, set.Status.Conditions, says)
}

func TestAPodThatSomebodyAddsToTheOperatorsOwnSetIsNotMade(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]struct {
		owner client.FieldOwner
		says  string
	}{
		"in his own name":         {"mallory", `not written by keyturn-kafka, but by "mallory"`},
		"in the operator's name":  {operatorsName, `not written by keyturn-kafka, but by "keyturn-kafka"`},
		"in no name that he gave": {"", "not written by keyturn-kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			before := w.podUIDs()
			var set podsetv1.StrimziPodSet
			w.get("my-dual", &set)
			set.Spec.Pods = append(set.Spec.Pods, runtime.RawExtension{Raw: []byte(evilPod)})
			if err := w.api.Update(t.Context(), &set, as.owner); err != nil {
				t.Fatal(err)
			}

			w.lookAtSets()
			w.wantRefused("my-dual", as.says)
			w.run(5)

			if after := w.podUIDs(); !maps.Equal(before, after) {
				t.Errorf("pods were %v and are %v", before, after)
			}
		})
	}
}

// applyAsOperator writes a set by server-side apply in the operator's name.
func (w *world) applyAsOperator(set *podsetv1.StrimziPodSet) {
	w.t.Helper()
	set.TypeMeta = metav1.TypeMeta{APIVersion: podsetv1.GroupVersion.String(), Kind: "StrimziPodSet"}
	set.ManagedFields, set.ResourceVersion = nil, ""
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		w.t.Fatal(err)
	}
	intent := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: object})
	if err := w.api.Apply(w.t.Context(), intent, operatorsName, client.ForceOwnership); err != nil {
		w.t.Fatal(err)
	}
}

func TestAPodThatIsAppliedToASetInTheOperatorsNameIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.podUIDs()
	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	set.Spec.Pods = append(set.Spec.Pods, runtime.RawExtension{Raw: []byte(evilPod)})
	w.applyAsOperator(&set)

	w.lookAtSets()
	w.wantRefused("my-dual", "pod evil is not a description of the operator's")
	w.run(5)

	if after := w.podUIDs(); !maps.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
}

func TestANodeIsMadeAsTheOperatorRendersItWhateverItsSetSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	var before, after corev1.Pod
	w.get("my-dual-0", &before)
	var set podsetv1.StrimziPodSet
	w.get("my-dual", &set)
	var described corev1.Pod
	if err := json.Unmarshal(set.Spec.Pods[0].Raw, &described); err != nil {
		t.Fatal(err)
	}
	container := &described.Spec.Containers[0]
	container.Image, container.Command, container.Ports[0].HostPort = "evil", []string{"/bin/sh"}, 443
	described.Spec.NodeName, described.Labels["app"] = "control-plane", "x"
	raw, err := json.Marshal(described)
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Pods[0] = runtime.RawExtension{Raw: raw}
	w.applyAsOperator(&set)
	if err := w.api.Delete(t.Context(), &before, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	w.lookAtSets()

	w.get("my-dual-0", &after)
	if after.UID == before.UID {
		t.Fatal("the pod was not made")
	}
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
		t.Errorf("labels (-before +after):\n%s", diff)
	}
	before.Spec.NodeName = "" // nobody has scheduled the new one
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the pod is another (-before +after):\n%s", diff)
	}
}

// The operator takes what runs for a node, and lets no node go but in its own order.
func TestANodeThatSomebodyDescribesInTheOperatorsNameIsRemovedInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))
	w.settle()
	before := w.podUIDs()
	var set podsetv1.StrimziPodSet
	w.get("my-extra", &set)
	set.Spec.Pods = append(set.Spec.Pods, runtime.RawExtension{
		Raw: []byte(strings.ReplaceAll(string(set.Spec.Pods[0].Raw), "my-extra-3", "my-extra-77")),
	})
	w.applyAsOperator(&set)

	w.lookAtSets()
	if w.missing(&corev1.Pod{}, "my-extra-77") {
		t.Fatal("no such pod was made, so that there is nothing to remove")
	}
	w.settle()

	if after := w.podUIDs(); !maps.Equal(before, after) {
		t.Errorf("pods were %v and are %v", before, after)
	}
}

func TestAServiceAccountThatSomebodyElseMadeIsNotLentToAnyPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "my-kafka", Namespace: w.namespace}})
	kafka := kafkaResource(w.namespace)
	w.create(kafka)
	set := w.strimziPodSet(kafka)
	set.Spec.Pods[0].Raw = []byte(strings.ReplaceAll(evilPod, `"evil"`, `"my-dual-0"`))
	w.applyAsOperator(set)

	w.lookAtSets()
	w.wantRefused("my-dual", "ServiceAccount my-kafka does not belong to Kafka my")
	w.run(5)

	if !w.missing(&corev1.Pod{}, "my-dual-0") {
		t.Error("a pod was made with it")
	}
}
