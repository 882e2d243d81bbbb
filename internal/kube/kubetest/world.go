package kubetest

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scheme has the kinds of Kubernetes and those that are added.
func Scheme(t testing.TB, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	failed := []error{clientgoscheme.AddToScheme(scheme)}
	for _, add := range add {
		failed = append(failed, add(scheme))
	}
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// Connect returns a client that knows the kinds of Kubernetes and those that are added.
func Connect(t testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) client.Client {
	t.Helper()
	api, err := client.New(config, client.Options{Scheme: Scheme(t, add...)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// Namespace creates a namespace for a test, and returns its name, which begins with the prefix.
func Namespace(t testing.TB, api client.Client, prefix string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}
