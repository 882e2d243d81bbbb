package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/rollout"
)

func TestARecordThatAnotherHasWrittenIsNotReplaced(t *testing.T) {
	t.Parallel()
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "my", Namespace: "kafka", UID: "1"}}
	server := fake.NewClientBuilder().WithReturnManagedFields().Build()
	r := New(Options{Client: server, Live: server, Metrics: NewMetrics()})
	p := passOf(kafka, nil)
	act := recordOf(&rollout.Act{Kind: rollout.Restart, PodName: "a", UID: "a"}, noon())
	other := recordOf(&rollout.Act{Kind: rollout.Restart, Node: 1, PodName: "b", UID: "b"}, noon())

	none := disruptionRecord{}
	if err := r.writeDisruption(t.Context(), p, none, act); err != nil {
		t.Fatal(err)
	}
	if err := r.writeDisruption(t.Context(), p, none, other); !apierrors.IsAlreadyExists(err) {
		t.Errorf("whoever read no record writes one: %v", err)
	}
	var object corev1.ConfigMap
	read := func() disruptionRecord {
		if err := server.Get(t.Context(), client.ObjectKey{Namespace: "kafka", Name: disruptionName("my")}, &object); err != nil {
			t.Fatal(err)
		}
		return disruptionRecord{resourceVersion: object.ResourceVersion}
	}
	first := read()
	if err := r.writeDisruption(t.Context(), p, first, other); err != nil {
		t.Fatal(err)
	}
	written := read()
	if err := r.writeDisruption(t.Context(), p, first, none); !apierrors.IsConflict(err) || !lostRace(err) {
		t.Errorf("whoever read an old record replaces it: %v", err)
	}
	if read().resourceVersion != written.resourceVersion {
		t.Errorf("the record is now %s", object.Data[disruptionKey])
	}
}
