package apitest

import (
	"slices"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func TestAClusterWhoseNamesRunTogetherWithAnothersTakesNothingOfItsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(kafkaResource(w.namespace), poolResource(w.namespace, "a-b", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
	var set podsetv1.StrimziPodSet
	w.get("my-a-b", &set)
	leaf := w.leafOf("my-a-b-0")

	other, pool := kafkaResource(w.namespace), poolResource(w.namespace, "b", 3, kafkav1.RoleController, kafkav1.RoleBroker)
	other.Name, pool.Labels["strimzi.io/cluster"] = "my-a", "my-a"
	w.create(other, pool)
	for range 4 {
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key("my-a")}); err != nil {
			t.Logf("it is told: %v", err)
		}
	}

	var second kafkav1.Kafka
	w.get("my-a", &second)
	if !slices.ContainsFunc(second.Status.Conditions, func(c condition.Condition) bool {
		return c.Type == condition.NotReady && c.Reason == "ForeignObject" && strings.Contains(c.Message, "StrimziPodSet my-a-b has a name that this cluster needs, and belongs to Kafka my")
	}) {
		t.Errorf("conditions of the second are %+v, want whose the pod set is", second.Status.Conditions)
	}
	w.readSecrets(t.Context())
	var now podsetv1.StrimziPodSet
	w.get("my-a-b", &now)
	if !w.leafOf("my-a-b-0").Equal(leaf) {
		t.Error("the node's certificate was written over")
	}
	if now.Labels["strimzi.io/cluster"] != clusterName || len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != set.OwnerReferences[0].UID {
		t.Errorf("the pod set belongs to %v now, with labels %v", now.OwnerReferences, now.Labels)
	}
}
