package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// A server refuses data of another cluster, so that the id of a cluster has to outlive
// whatever its data outlive.

func TestTheIDOfAClusterOutlivesItsStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	kafka := w.getKafka()
	id := kafka.Status.ClusterId
	kafka.Status = kafkav1.KafkaStatus{}
	if err := w.api.Status().Update(t.Context(), kafka); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if now := w.getKafka().Status.ClusterId; now != id {
		t.Errorf("the cluster id was %s and is %s", id, now)
	}
	w.wantRestarts(0)
}

func TestTheIDOfAClusterOutlivesItsKafkaInTheClaimsThatAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(false))
	id := w.getKafka().Status.ClusterId
	w.deleteCluster()
	w.extraBrokers(claims(false))
	if now := w.getKafka().Status.ClusterId; now != id {
		t.Errorf("the cluster id was %s and is %s", id, now)
	}
	w.wantReady()
}

func TestClaimsWithTheDataOfAnotherClusterAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(false))
	w.annotate(&corev1.PersistentVolumeClaim{}, "data-my-extra-3", map[string]any{"keyturn.dev/cluster-id": "another"})
	w.run(5)
	w.wantCondition(condition.NotReady, "data-my-extra-3", "another", "delete the claim")
	w.wantRestarts(0)

	w.annotate(&corev1.PersistentVolumeClaim{}, "data-my-extra-3", map[string]any{"keyturn.dev/cluster-id": nil})
	w.settle()
	w.wantReady()
}
