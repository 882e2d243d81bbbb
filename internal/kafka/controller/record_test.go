package controller

import (
	"bytes"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// What an operator before this one wrote down is gone on from.

// inRotation is a reconcile over a cluster of which the authority is being replaced.
func inRotation(now time.Time) *applied {
	c := clusterOf(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my", UID: "uid"}}, nil)
	c.clusterCA.kind, c.clientsCA.kind = authorities.Cluster, authorities.Clients
	c.clusterCA.Snapshot = rotationtest.AtRest(1, rotationtest.Replaced).Snapshot
	c.clusterCA.Snapshot.Now, c.clientsCA.Snapshot.Now = now, now
	c.clusterCA.Plan = trust.Decide(c.clusterCA.Snapshot)
	return c
}

// recorded are the ConfigMap with the records and the record of the cluster CA.
func recorded(t *testing.T, api client.Client) (corev1.ConfigMap, rotation.Record) {
	t.Helper()
	var stored corev1.ConfigMap
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: rotation.ConfigMapName("my")}, &stored); err != nil {
		t.Fatal(err)
	}
	record, err := authorities.Words().Parse(stored.BinaryData[rotation.Key(string(authorities.Cluster))])
	if err != nil {
		t.Fatal(err)
	}
	return stored, record
}

// recordAnew has an operator that was just started write down what it has decided from.
func recordAnew(t *testing.T, r *Reconciler, c *applied) {
	t.Helper()
	c.unrecalled = r.recallRecords(t.Context(), c.decided)
	r.record(t.Context(), c)
}

func TestAnOperatorThatStartsWritesNoRecordThatSaysTheSame(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	recordAnew(t, recorder(api), inRotation(rotationtest.Now()))
	before, _ := recorded(t, api)

	recordAnew(t, recorder(api), inRotation(rotationtest.Now().Add(time.Hour)))

	if after, _ := recorded(t, api); !maps.EqualFunc(after.BinaryData, before.BinaryData, bytes.Equal) {
		t.Errorf("the next operator has written\n%v\nin the place of\n%v", after.BinaryData, before.BinaryData)
	}
}

func TestARecordThatWasChangedIsWrittenAgain(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	r, c := recorder(api), inRotation(rotationtest.Now())
	id := objectID{configMapKind().GroupKind(), rotation.ConfigMapName("my")}
	for range 3 { // at rest, it is known by its version
		recordAnew(t, r, c)
		stored, _ := recorded(t, api)
		c.objects = map[objectID]*metav1.PartialObjectMetadata{id: {ObjectMeta: stored.ObjectMeta}}
	}
	before, _ := recorded(t, api)
	if c.memory.recorded != before.ResourceVersion {
		t.Fatalf("version %q is known, want %q", c.memory.recorded, before.ResourceVersion)
	}

	changed := before.DeepCopy()
	changed.BinaryData = nil
	if err := api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	c.objects[id].ResourceVersion = changed.ResourceVersion
	recordAnew(t, r, c)

	if after, _ := recorded(t, api); !maps.EqualFunc(after.BinaryData, before.BinaryData, bytes.Equal) {
		t.Errorf("the record holds %v", after.BinaryData)
	}
}

func TestARotationBeganWhenTheOperatorBeforeBeganIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// disturb is what happens to the records while no operator runs.
		disturb func(*corev1.ConfigMap)
		began   time.Duration
	}{
		"it has written that down": {disturb: func(*corev1.ConfigMap) {}},
		"somebody has broken the record": {func(c *corev1.ConfigMap) {
			c.BinaryData[rotation.Key(string(authorities.Cluster))] = []byte("{")
		}, time.Hour},
		"the record has an earlier format": {func(c *corev1.ConfigMap) {
			c.BinaryData, c.Data = nil, map[string]string{"cluster-ca.json": `{"format":1,"cluster":"my","domain":"cluster-ca"}`}
		}, time.Hour},
		"the record is of another Kafka of the name": {func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "another" }, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientBuilder().Build()
			recordAnew(t, recorder(api), inRotation(rotationtest.Now()))
			stored, _ := recorded(t, api)
			c.disturb(&stored)
			if err := api.Update(t.Context(), &stored); err != nil {
				t.Fatal(err)
			}

			next := recorder(api)
			next.records.Reloaded("uid", time.Second) // something else to write down
			recordAnew(t, next, inRotation(rotationtest.Now().Add(time.Hour)))

			_, got := recorded(t, api)
			if want := rotationtest.Now().Add(c.began); !got.StartedAt.Equal(want) || got.ReloadSeconds != 1 {
				t.Errorf("the record says %s after reloads of %v s, want %s and 1", got.StartedAt, got.ReloadSeconds, want)
			}
		})
	}
}
