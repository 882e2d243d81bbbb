package apitest

import (
	"os"
	"path/filepath"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m.Run)) }

// access is something that somebody may or may not do.
type access struct {
	verb, group, resource, subresource, namespace, name string
}

func secrets(verb, namespace string) access {
	return access{verb: verb, resource: "secrets", namespace: namespace}
}

func leases(verb, namespace, name string) access {
	return access{verb: verb, group: "coordination.k8s.io", resource: "leases", namespace: namespace, name: name}
}

// What the operator may do once the manifest is installed, as a real API server says.
func TestOperatorMayDoWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	always := map[access]bool{
		secrets("list", "kafka"):   true,
		secrets("create", "kafka"): true,
		secrets("update", "kafka"): false,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkas", namespace: "kafka"}:                        false,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkas", subresource: "status", namespace: "kafka"}: true,
		{verb: "delete", group: "kafka.strimzi.io", resource: "kafkas", namespace: "kafka"}:                       false,
		{verb: "create", group: "core.strimzi.io", resource: "strimzipodsets", namespace: "kafka"}:                true,
		{verb: "delete", resource: "pods", namespace: "kafka"}:                                                    true,
		{verb: "create", resource: "pods", subresource: "exec", namespace: "kafka"}:                               false,
		{verb: "create", group: "events.k8s.io", resource: "events", namespace: "kafka"}:                          true,
		{verb: "create", group: "networking.k8s.io", resource: "networkpolicies", namespace: "kafka"}:             true,
		{verb: "create", group: "networking.k8s.io", resource: "ingresses", namespace: "kafka"}:                   false,
		leases("create", "keyturn", ""):                                                                           true,
		leases("update", "keyturn", "keyturn-operator"):                                                           true,
		leases("update", "keyturn", "another"):                                                                    false,
		leases("get", "kafka", "keyturn-operator"):                                                                false,
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "kafka"}:               false,
		{verb: "list", resource: "nodes"}:                                                                         false,
		{verb: "get", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"}:                       false,
		{verb: "create", resource: "serviceaccounts", subresource: "token", namespace: "kafka", name: "anything"}: false,
	}
	tests := map[string]struct {
		file string
		more map[access]bool
	}{
		"all namespaces": {file: chartstest.ClusterWide, more: map[access]bool{secrets("list", ""): true, secrets("get", "shop"): true}},
		"one namespace":  {file: chartstest.Namespaced, more: map[access]bool{secrets("list", ""): false, secrets("get", "shop"): false, secrets("get", "keyturn"): false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := install(t, test.file)
			for _, rights := range []map[access]bool{always, test.more} {
				for access, want := range rights {
					if got := may(t, operator, access); got != want {
						t.Errorf("%+v: allowed is %t, want %t", access, got, want)
					}
				}
			}
		})
	}
}

// install starts an API server, applies the manifest, and returns a client that acts as the operator.
func install(t *testing.T, file string) client.Client {
	t.Helper()
	server := &envtest.Environment{}
	stop, err := kubetest.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := client.New(server.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	operator, err := client.New(chartstest.Rights(t, server.Config, filepath.Join("..", ".."), file), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range chartstest.Objects(t, filepath.Join("..", ".."), file) {
		if err := admin.Create(t.Context(), &object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("installing the rest of %s: %v", file, err)
		}
	}
	return operator
}

func may(t *testing.T, who client.Client, what access) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: what.verb, Group: what.group, Resource: what.resource, Subresource: what.subresource,
			Namespace: what.namespace, Name: what.name,
		},
	}}
	if err := who.Create(t.Context(), review); err != nil {
		t.Fatalf("asking for %+v: %v", what, err)
	}
	return review.Status.Allowed
}
