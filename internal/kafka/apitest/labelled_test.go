package apitest

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// Labels and annotations are written by anybody. What carries those of the cluster is not
// the cluster's for that alone.

// labelledClaim is a claim with labels of the cluster's, and a name that no node's has.
func (w *world) labelledClaim(name string, annotations map[string]string) {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Annotations: annotations,
		Labels: map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/pool-name": "dual"},
	}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.create(claim)
}

func TestWhatOnlyCarriesLabelsIsNotDeletedWithNodes(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	labels := map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/pool-name": "dual"}
	for _, name := range []string{"grafana-dashboards", "my-dual-7"} {
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: labels}})
	}
	for _, name := range []string{"backup-of-orders", "data-my-dual-7"} {
		w.labelledClaim(name, map[string]string{"strimzi.io/delete-claim": "true"})
	}

	w.run(5)

	for _, name := range []string{"grafana-dashboards", "my-dual-7"} {
		if w.missing(&corev1.ConfigMap{}, name) {
			t.Errorf("ConfigMap %s, which nobody owns, was deleted", name)
		}
	}
	for _, name := range []string{"backup-of-orders", "data-my-dual-7"} {
		var claim corev1.PersistentVolumeClaim
		if w.missing(&claim, name) {
			t.Errorf("claim %s, which nobody owns, was deleted", name)
			continue
		}
		if w.get(name, &claim); claim.DeletionTimestamp != nil {
			t.Errorf("claim %s, which nobody owns, is being deleted", name)
		}
	}
}

func TestAClaimThatIsNamedAfterNoNodeStopsNoCluster(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	w.labelledClaim("anything", map[string]string{"keyturn.dev/cluster-id": "another"})

	w.run(5)

	w.wantReady()
}

func TestAPodSetThatHasLostItsAnnotationsIsShrunk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 3)
	w.delete(&kafkav1.KafkaNodePool{}, "extra")
	w.run(15)
	var set podsetv1.StrimziPodSet
	w.get("my-extra", &set)
	set.Annotations = nil
	if err := w.api.Update(t.Context(), &set); err != nil {
		t.Fatal(err)
	}

	w.run(5)

	if w.get("my-extra", &set); set.Annotations["keyturn.dev/nodes"] == "" {
		t.Errorf("annotations are %v, want the record of nodes again", set.Annotations)
	}
}

func TestARemovalThatSomebodyElseRecordsTakesNoBrokerAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cover func(w *world)
		said  string
	}{
		"under a name of his own": {func(*world) {}, "not by the operator"},
		"and removes his name": {
			func(w *world) {
				w.patch(&corev1.ConfigMap{}, "my-disruption", map[string]any{"metadata": map[string]any{"managedFields": []any{map[string]any{}}}})
			}, "it is not known who wrote",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recordRemoval(t, c.cover, c.said)
		})
	}
}

// recordRemoval is somebody who records, and covers, a removal that is not granted.
func recordRemoval(t *testing.T, cover func(w *world), said string) {
	t.Helper()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 4)
	w.scale("extra", 1)
	w.run(5)
	w.wantReason(rollingUpdate, "Blocked", "my-extra-4", "topic orders partition 0")
	record := map[string]string{"disruption.json": fmt.Sprintf(`{"disruption":{"node":4,"uid":%q,"since":%q},"kind":"Remove"}`,
		w.podUIDs()["my-extra-4"], w.clock.Now().UTC().Format(time.RFC3339))}
	if w.missing(&corev1.ConfigMap{}, "my-disruption") {
		w.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-disruption", Labels: map[string]string{"strimzi.io/cluster": clusterName}}, Data: record,
		})
	} else {
		w.patch(&corev1.ConfigMap{}, "my-disruption", map[string]any{"data": record})
	}
	cover(w)

	for range 6 {
		w.run(1)
		var set podsetv1.StrimziPodSet
		if w.get("my-extra", &set); len(set.Spec.Pods) != 2 {
			t.Fatalf("%d pods are described, want both: one broker has the only copy in sync", len(set.Spec.Pods))
		}
	}
	w.wantInvalid("my-disruption", said)
}

func TestAConfigMapThatIsNamedAfterNoNodeMakesNoPodAStranger(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	labels := map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/pool-name": "dual"}
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web", Labels: labels}})
	w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}})

	w.run(5)

	for _, c := range w.getKafka().Status.Conditions {
		if c.Reason == "ForeignPod" {
			t.Errorf("%s", c.Message)
		}
	}
}
