package apitest

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// What people do with the cluster, and what they see.

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.api.Create(w.t.Context(), object); err != nil {
			w.t.Fatal(err)
		}
		w.did("made", object)
	}
}

func (w *world) get(name string, into client.Object) {
	w.t.Helper()
	if err := w.api.Get(w.t.Context(), w.key(name), into); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) getKafka() *kafkav1.Kafka {
	w.t.Helper()
	var kafka kafkav1.Kafka
	w.get(clusterName, &kafka)
	return &kafka
}

// annotate sets annotations of an object as kubectl annotate does.
func (w *world) annotate(object client.Object, name string, annotations map[string]any) {
	w.t.Helper()
	w.patch(object, name, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

func (w *world) patch(object client.Object, name string, change map[string]any) {
	w.t.Helper()
	data, err := json.Marshal(change)
	if err != nil {
		w.t.Fatal(err)
	}
	object.SetName(name)
	object.SetNamespace(w.namespace)
	if err := w.api.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, data)); err != nil {
		w.t.Fatal(err)
	}
	w.did("changed", object)
}

// did notes what a person has done.
func (w *world) did(what string, object client.Object) {
	w.t.Helper()
	w.trace("somebody has %s %s", what, kubetest.Write{Object: object}.Target())
	w.configsChanged = true
	if _, isSecret := object.(*corev1.Secret); isSecret {
		w.readSecrets(w.t.Context())
	}
}

func has(kafka *kafkav1.Kafka, kind condition.Type) bool {
	return slices.ContainsFunc(kafka.Status.Conditions, func(c condition.Condition) bool { return c.Type == kind })
}

func (w *world) scale(pool string, replicas int) {
	w.t.Helper()
	w.patch(&kafkav1.KafkaNodePool{}, pool, map[string]any{"spec": map[string]any{"replicas": replicas}})
}

func (w *world) configure(key, value string) {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"kafka": map[string]any{"config": map[string]any{key: value}}}})
}

func (w *world) delete(object client.Object, name string) {
	w.t.Helper()
	w.get(name, object)
	if err := w.api.Delete(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
	w.did("deleted", object)
}

func (w *world) list(into client.ObjectList) {
	w.t.Helper()
	if err := w.api.List(w.t.Context(), into, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
}
