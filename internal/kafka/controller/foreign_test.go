package controller

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// beside is a reconcile over a cluster of no nodes, with a companion, beside objects.
func beside(objects ...client.Object) (*Reconciler, *applied) {
	live := fake.NewClientBuilder().WithReturnManagedFields().WithObjects(objects...).Build()
	r := New(Options{Client: live, Live: live, Metrics: metrics.New(), Companions: func(model.Cluster) []companion.Companion {
		return []companion.Companion{{Name: "my-companion", Secret: "my-companion-certs"}}
	}})
	c := clusterOf(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my", UID: "1"}}, nil)
	c.cluster = model.Cluster{Names: c.names()}
	return r, c
}

func named(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}
}

func TestObjectsOfOthersAreFoundBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]client.Object{
		"where disruptions are recorded": &corev1.ConfigMap{ObjectMeta: named("my-disruption", nil)},
		"where a companion should be":    &appsv1.Deployment{ObjectMeta: named("my-companion", nil)},
		"where its certificates go":      &corev1.Secret{ObjectMeta: named("my-companion-certs", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, c := beside(object)

			foreign, is := errors.AsType[*foreignObjectsError](r.checkOwnership(t.Context(), c.desired))

			if !is || len(foreign.objects) != 1 || foreign.objects[0].name != object.GetName() {
				t.Errorf("found: %v, want %s", foreign, object.GetName())
			}
		})
	}
}

func TestAStrangersConfigMapIsNoRecordOfADisruption(t *testing.T) {
	t.Parallel()
	written := map[string]string{disruptionKey: `{"disruption":{"node":2,"uid":"u","since":"2027-03-01T12:00:00Z"},"kind":"Remove"}`}
	for name, c := range map[string]struct {
		labels map[string]string
		ours   bool
	}{
		"without a label":                 {nil, false},
		"with another cluster's label":    {map[string]string{model.ClusterLabel: "other"}, false},
		"the cluster's own, by its label": {map[string]string{model.ClusterLabel: "my"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &corev1.ConfigMap{ObjectMeta: named("my-disruption", c.labels), Data: written}
			config.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: string(fieldOwner), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:disruption.json":{}}}`),
			}}
			r, p := beside(config)

			record, err := r.readDisruption(t.Context(), p.observation)

			if ofOthers(err) == c.ours || (record.Disruption != nil) != c.ours {
				t.Errorf("the record is %+v, %v", record, err)
			}
			removing, err := r.removalInProgress(t.Context(), p.desired)
			if err != nil || removing != noNode && !c.ours {
				t.Errorf("node %d is taken for leaving, %v", removing, err)
			}
		})
	}
}
