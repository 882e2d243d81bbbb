package apitest

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// gathered are the rules that an implementation of the Service Binding specification gets: those of every ClusterRole
// with the label of the specification.
func gathered(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, object := range chartstest.Objects(t, filepath.Join("..", "..", ".."), chartstest.AccessOperator) {
		if object.GetKind() != "ClusterRole" || object.GetLabels()["servicebinding.io/controller"] != "true" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}

// The lookups that the specification asks for of an implementation, in its order, with exactly the rights that the chart
// hands out: find kinds of provisioned services, read and watch one by group, version, kind and name, and follow
// status.binding.name to a Secret in its namespace.
func TestAServiceBindingFindsTheSecretWithTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.realCluster()
	w.access("my-user", nil)
	w.proposedAccess("barista-kafka", "my-user", nil)
	w.mustReconcile()
	w.mustReconcileProposed("barista-kafka")
	binder, err := client.NewWithWatch(grant(t, w.person, "binder-"+w.namespace, gathered(t)), client.Options{Scheme: newScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	services := w.provisionedServices()
	if len(services) != 2 {
		t.Fatalf("the provisioned services are %v", services)
	}
	for kind, name := range map[schema.GroupVersionKind]string{
		{Group: "access.strimzi.io", Version: "v1alpha1", Kind: "KafkaAccess"}: "my-app",
		{Group: "kafka.strimzi.io", Version: "v1beta2", Kind: "KafkaAccess"}:   "barista-kafka",
	} {
		if !slices.Contains(services, kind) {
			t.Errorf("%s is no provisioned service", kind)
		}
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(kind)
		if err := binder.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, service); err != nil {
			t.Fatal(err)
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		watched, err := binder.Watch(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		watched.Stop()
		secret, found, err := unstructured.NestedString(service.Object, "status", "binding", "name")
		if err != nil || !found {
			t.Fatalf("%s has no binding: %v", kind, err)
		}
		w.isBindingSecret(secret)
		if err := binder.Get(t.Context(), types.NamespacedName{Namespace: w.namespace, Name: secret}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
			t.Errorf("the rights let it read Secrets: %v", err)
		}
	}
}

// provisionedServices are the kinds whose definitions carry the label of the specification.
func (w *world) provisionedServices() []schema.GroupVersionKind {
	w.t.Helper()
	person := kubetest.Connect(w.t, apiServer, apiextensionsv1.AddToScheme)
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := person.List(w.t.Context(), definitions, client.MatchingLabels{"servicebinding.io/provisioned-service": "true"}); err != nil {
		w.t.Fatal(err)
	}
	var kinds []schema.GroupVersionKind
	for i := range definitions.Items {
		spec := &definitions.Items[i].Spec
		kinds = append(kinds, schema.GroupVersionKind{Group: spec.Group, Version: spec.Versions[0].Name, Kind: spec.Names.Kind})
	}
	return kinds
}

// isBindingSecret holds a Secret against what the specification asks of one: a type of its form, and a type among its
// entries, whose names are those of files.
func (w *world) isBindingSecret(name string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	w.get(name, secret)
	if secret.Type != "servicebinding.io/kafka" || string(secret.Data["type"]) != "kafka" || string(secret.Data["provider"]) != "strimzi" {
		w.t.Errorf("Secret %s is of type %s with entries %v", name, secret.Type, slices.Sorted(maps.Keys(secret.Data)))
	}
}
