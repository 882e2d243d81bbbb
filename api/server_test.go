package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m.Run)) }

// startServer starts an API server with the definitions and the namespace kafka.
func startServer(t *testing.T) client.Client {
	t.Helper()
	c := kubetest.Connect(t, kubetest.Start(t, kubetest.Definitions()))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kafka"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return c
}

// A real API server adds to the tests without one what rules may cost and how versions are converted.
func TestAPIServerTakesTheDefinitions(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	t.Run("what is written in v1beta2 is read in v1", func(t *testing.T) {
		t.Parallel()
		sent := &unstructured.Unstructured{Object: manifest(t, "testdata", "kafka-rich.yaml")}
		sent.SetAPIVersion("kafka.strimzi.io/v1beta2")
		want := clone(t, sent.Object)["spec"]
		if err := server.Create(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		read := &unstructured.Unstructured{}
		read.SetAPIVersion("kafka.strimzi.io/v1")
		read.SetKind("Kafka")
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(sent), read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read.Object["spec"]); diff != "" {
			t.Errorf("the spec changed on the way (-v1beta2 +v1):\n%s", diff)
		}
	})
	t.Run("a rule refuses with its message", func(t *testing.T) {
		t.Parallel()
		clash := merged(t, minimalKafka, `{metadata: {name: clash}, spec: {kafka: {listeners: [
			{name: one, port: 9092, type: internal, tls: false}, {name: two, port: 9092, type: internal, tls: false}]}}}`)
		err := server.Create(t.Context(), &unstructured.Unstructured{Object: clash})
		status, isStatus := errors.AsType[*apierrors.StatusError](err)
		if !isStatus || !apierrors.IsInvalid(err) {
			t.Fatalf("got %v, want Invalid", err)
		}
		want := metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.kafka.listeners",
			Message: "two listeners share a port: every listener needs one of its own",
		}
		causes := status.ErrStatus.Details.Causes
		if len(causes) != 1 || causes[0].Field != want.Field || !strings.HasSuffix(causes[0].Message, want.Message) {
			t.Errorf("got causes %v, want %v", causes, want)
		}
	})
	t.Run("a misspelled field is refused by strict validation", func(t *testing.T) {
		t.Parallel()
		open := merged(t, minimalKafka, `{metadata: {name: misspelled}, spec: {kafka: {listeners: [
			{name: one, port: 9092, type: internal, tls: true, authentification: {type: tls}}]}}}`)
		for _, version := range versions() {
			sent := &unstructured.Unstructured{Object: clone(t, open)}
			sent.SetAPIVersion("kafka.strimzi.io/" + version)
			err := server.Create(t.Context(), sent, &client.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if want := `unknown field "spec.kafka.listeners[0].authentification"`; !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want a refusal with %s", version, err, want)
			}
		}
	})
	t.Run("the definitions carry what kubectl apply adds", func(t *testing.T) {
		t.Parallel()
		for _, name := range definitions() {
			applied, err := json.Marshal(definition(t, name))
			if err != nil {
				t.Fatal(err)
			}
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{corev1.LastAppliedConfigAnnotation: string(applied)}}})
			if err != nil {
				t.Fatal(err)
			}
			crd := &unstructured.Unstructured{}
			crd.SetAPIVersion("apiextensions.k8s.io/v1")
			crd.SetKind("CustomResourceDefinition")
			crd.SetName(name)
			if err := server.Patch(t.Context(), crd, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("what people have published is taken", func(t *testing.T) {
		t.Parallel()
		strict := &client.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		for i, public := range publicManifests(t) {
			admission := newAdmission(t, public.crd(), public.Version)
			sent := &unstructured.Unstructured{Object: public.object(fmt.Sprintf("public-%d", i), admission.structural)}
			if err := server.Create(t.Context(), sent, strict); err != nil {
				t.Errorf("%s: %v", public.From, err)
			}
		}
	})
	t.Run("a node pool scales", func(t *testing.T) {
		t.Parallel()
		pool := &unstructured.Unstructured{Object: object(t, minimalNodePool)}
		if err := server.Create(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"replicas": 5}}`))
		if err := server.SubResource("scale").Patch(t.Context(), pool, patch, client.WithSubResourceBody(&autoscalingv1.Scale{})); err != nil {
			t.Fatal(err)
		}
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			t.Fatal(err)
		}
		if replicas, _, _ := unstructured.NestedInt64(pool.Object, "spec", "replicas"); replicas != 5 {
			t.Errorf("got %d replicas, want 5", replicas)
		}
	})
	t.Run("the examples are taken", func(t *testing.T) {
		t.Parallel()
		files, _ := filepath.Glob(filepath.Join("..", "examples", "*.yaml"))
		for _, document := range documents(t, files) {
			example := &unstructured.Unstructured{Object: merged(t, "metadata: {namespace: kafka}", document)}
			if !slices.Contains([]string{"Kafka", "KafkaNodePool"}, example.GetKind()) {
				continue
			}
			// Pools of different examples may share a name.
			example.SetGenerateName(example.GetName() + "-")
			example.SetName("")
			if err := server.Create(t.Context(), example); err != nil {
				t.Errorf("%s %s: %v", example.GetKind(), example.GetGenerateName(), err)
			}
		}
	})
}
