package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
)

// Another operator makes pod sets for other resources, and they carry the label of the
// cluster that those resources have the name of.

// connectSet is the pod set that Strimzi makes for a KafkaConnect named as the Kafka.
func (w *world) connectSet(owners ...metav1.OwnerReference) *podsetv1.StrimziPodSet {
	w.t.Helper()
	set := w.strimziPodSet(w.getKafka())
	set.Name, set.OwnerReferences = "my-connect", owners
	set.Spec.Pods[0].Raw = []byte(`{"metadata": {"name": "my-connect-0", "labels": {"strimzi.io/cluster": "my"}, "annotations": {"strimzi.io/revision": "1"}},
		"spec": {"containers": [{"name": "a", "image": "b"}]}}`)
	return set
}

func TestARunningClusterIsKeptUpBesideAPodSetOfAnother(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]func(w *world) *podsetv1.StrimziPodSet{
		"that nobody owns":         func(w *world) *podsetv1.StrimziPodSet { return w.connectSet() },
		"that a KafkaConnect owns": func(w *world) *podsetv1.StrimziPodSet { return w.connectSet(theirs()["a Connect cluster"]) },
		"that the Kafka owns": func(w *world) *podsetv1.StrimziPodSet {
			return w.connectSet(w.strimziPodSet(w.getKafka()).OwnerReferences...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			w.nobodyReads()
			set := made(w)
			w.create(set)
			leaf := w.leafOf("my-dual-0")

			w.clock.SetTime(nearTheEnd())
			w.run(10)
			w.wantReady()
			if w.leafOf("my-dual-0").Equal(leaf) {
				t.Error("a certificate that is due is not renewed")
			}
			w.clock.SetTime(start().Add(366 * authority.Day))
			w.run(10)

			w.wantExpired()
			w.wantReady()
			if !w.untouched(set) {
				t.Errorf("the set was written: %v", set.ManagedFields)
			}
		})
	}
}

func TestAPodSetOfAnotherAtThePlaceOfANewPoolIsToldAndNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	set := w.connectSet()
	w.create(set, poolResource(w.namespace, "connect", 1, "broker"))

	w.run(6)

	w.wantToldOnce("StrimziPodSet my-connect")
	if !w.untouched(set) || len(w.podUIDs()) != 3 {
		t.Errorf("untouched: %t, pods %v", w.untouched(set), w.podUIDs())
	}
}

func TestWhatShowsWhoMadeAClusterMayBeLostInParts(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the pod set, and the publication of a node": func(w *world) {
			w.dropData("my-dual-1", agent.PublicationKey)
			var set podsetv1.StrimziPodSet
			w.get("my-dual", &set)
			w.loseControl(&set)
			w.delete(&set, "my-dual")
		},
		"the annotations of the pod set": func(w *world) {
			w.patch(&podsetv1.StrimziPodSet{}, "my-dual", map[string]any{"metadata": map[string]any{"annotations": nil}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)

			lose(w)
			w.run(20)

			w.wantReady()
			if pods := w.podUIDs(); len(pods) != 3 {
				t.Errorf("pods are %v", pods)
			}
		})
	}
}

func TestCertificatesAreRenewedWhileTheOperatorsOwnSecretIsSomebodyElses(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(w *world){
		"nothing marks it": func(w *world) { w.unmark(&corev1.Secret{}, "my-cluster-operator-certs") },
		"somebody else has made it": func(w *world) {
			object := foreignSecret("my-cluster-operator-certs")
			object.SetNamespace(w.namespace)
			w.delete(&corev1.Secret{}, "my-cluster-operator-certs")
			w.create(object)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			w.nobodyReads()
			w.lockedOut = true
			leaf := w.leafOf("my-dual-0")
			take(w)
			w.run(5)
			w.wantToldOnce("Secret my-cluster-operator-certs")

			w.clock.SetTime(nearTheEnd())
			w.run(30)

			if w.leafOf("my-dual-0").Equal(leaf) {
				t.Error("a certificate that is due is not renewed")
			}
			w.wantRestarts(0)
		})
	}
}
