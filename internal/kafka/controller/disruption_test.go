package controller

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

func TestARecordIsTheClustersAndSaysWhatItWasToldToSay(t *testing.T) {
	t.Parallel()
	server := fake.NewClientBuilder().WithReturnManagedFields().Build()
	r := New(Options{Client: server, Live: server, Metrics: metrics.New()})
	c := clusterOf(smallKafka(), nil)
	c.cluster = withPolicies(t, nil)
	act := recordOf(&rollout.Act{
		Kind: rollout.Restart, Node: 3, PodName: "a", UID: "a", Reasons: []rollout.Reason{{Code: rollout.ManualRollingUpdate, Note: "asked for"}},
	}, noon())
	for _, next := range []disruptionRecord{act, {}, act} {
		read, err := r.readDisruption(t.Context(), c.observation)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.writeDisruption(t.Context(), c.desired, read, next); err != nil {
			t.Fatal(err)
		}
		now, err := r.readDisruption(t.Context(), c.observation)
		if err != nil || !reflect.DeepEqual(now.planned(), next.planned()) || now.Kind != next.Kind || !slices.Equal(now.Reasons, next.Reasons) {
			t.Errorf("it says %+v (%v), want %+v", now, err, next)
		}
		var object corev1.ConfigMap
		if err := server.Get(t.Context(), client.ObjectKey{Namespace: "kafka", Name: disruptionName("my")}, &object); err != nil {
			t.Fatal(err)
		}
		if !c.isOwned(&object) || object.Labels[model.ClusterLabel] != "my" {
			t.Errorf("it is owned by %v, with labels %v", object.OwnerReferences, object.Labels)
		}
	}
}

// Whoever labels the object has not said whose pod is being restarted.
func TestARecordThatSomebodyElseHasLabelledIsBelieved(t *testing.T) {
	t.Parallel()
	server := fake.NewClientBuilder().WithReturnManagedFields().Build()
	r := New(Options{Client: server, Live: server, Metrics: metrics.New()})
	c := clusterOf(smallKafka(), nil)
	c.cluster = withPolicies(t, nil)
	act := recordOf(&rollout.Act{Kind: rollout.Restart, PodName: "a", UID: "a"}, noon())
	if err := r.writeDisruption(t.Context(), c.desired, disruptionRecord{}, act); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*corev1.ConfigMap)) error {
		var object corev1.ConfigMap
		if err := server.Get(t.Context(), client.ObjectKey{Namespace: "kafka", Name: disruptionName("my")}, &object); err != nil {
			t.Fatal(err)
		}
		before := object.DeepCopy()
		change(&object)
		if err := server.Patch(t.Context(), &object, client.MergeFrom(before), client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
		_, err := r.readDisruption(t.Context(), c.observation)
		return err
	}

	if err := changed(func(object *corev1.ConfigMap) { object.Labels["team"] = "messaging" }); err != nil {
		t.Errorf("with a label of somebody else's: %v", err)
	}
	if err := changed(func(object *corev1.ConfigMap) { object.Data[disruptionKey] += " " }); !unreadableRecord(err) {
		t.Errorf("with data of somebody else's it is believed: %v", err)
	}
}

func TestARecordThatAnotherHasWrittenIsNotReplaced(t *testing.T) {
	t.Parallel()
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Name: "my", Namespace: "kafka", UID: "1"}}
	server := fake.NewClientBuilder().WithReturnManagedFields().Build()
	r := New(Options{Client: server, Live: server, Metrics: metrics.New()})
	c := clusterOf(kafka, nil)
	act := recordOf(&rollout.Act{Kind: rollout.Restart, PodName: "a", UID: "a"}, noon())
	other := recordOf(&rollout.Act{Kind: rollout.Restart, Node: 1, PodName: "b", UID: "b"}, noon())

	none := disruptionRecord{}
	if err := r.writeDisruption(t.Context(), c.desired, none, act); err != nil {
		t.Fatal(err)
	}
	if err := r.writeDisruption(t.Context(), c.desired, none, other); !apierrors.IsAlreadyExists(err) {
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
	if err := r.writeDisruption(t.Context(), c.desired, first, other); err != nil {
		t.Fatal(err)
	}
	written := read()
	if err := r.writeDisruption(t.Context(), c.desired, first, none); !apierrors.IsConflict(err) || !lostRace(err) {
		t.Errorf("whoever read an old record replaces it: %v", err)
	}
	if read().resourceVersion != written.resourceVersion {
		t.Errorf("the record is now %s", object.Data[disruptionKey])
	}
}
