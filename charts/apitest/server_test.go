package apitest

import (
	"os"
	"path/filepath"
	"slices"
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

func policies(verb, name string) access {
	return access{verb: verb, group: "admissionregistration.k8s.io", resource: "validatingadmissionpolicies", name: name}
}

// What the operator may do once the manifest is installed, as a real API server says.
func TestOperatorMayDoWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	always := map[access]bool{
		secrets("list", "kafka"):   true,
		secrets("create", "kafka"): true,
		secrets("update", "kafka"): false,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkas", namespace: "kafka"}:                                false,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkas", subresource: "status", namespace: "kafka"}:         true,
		{verb: "delete", group: "kafka.strimzi.io", resource: "kafkas", namespace: "kafka"}:                               false,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkausers", subresource: "status", namespace: "kafka"}:     true,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkatopics", subresource: "status", namespace: "kafka"}:    true,
		{verb: "patch", group: "access.strimzi.io", resource: "kafkaaccesses", subresource: "status", namespace: "kafka"}: true,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkaaccesses", subresource: "status", namespace: "kafka"}:  true,
		{verb: "patch", group: "kafka.strimzi.io", resource: "kafkaaccesses", namespace: "kafka"}:                         false,
		{verb: "create", group: "core.strimzi.io", resource: "strimzipodsets", namespace: "kafka"}:                        true,
		{verb: "delete", resource: "pods", namespace: "kafka"}:                                                            true,
		{verb: "create", resource: "pods", subresource: "exec", namespace: "kafka"}:                                       false,
		{verb: "create", group: "events.k8s.io", resource: "events", namespace: "kafka"}:                                  true,
		{verb: "create", group: "networking.k8s.io", resource: "networkpolicies", namespace: "kafka"}:                     true,
		{verb: "create", group: "networking.k8s.io", resource: "ingresses", namespace: "kafka"}:                           false,
		leases("create", "keyturn", ""):                                                                           true,
		leases("update", "keyturn", "keyturn-operator"):                                                           true,
		leases("update", "kafka", "my-cluster-user-operator"):                                                     true,
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "kafka"}:               true,
		{verb: "escalate", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "kafka"}:             false,
		{verb: "bind", group: "rbac.authorization.k8s.io", resource: "roles", namespace: "kafka"}:                 false,
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterroles"}:                            false,
		{verb: "list", resource: "nodes"}:                                                                         false,
		{verb: "get", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"}:                       false,
		{verb: "create", resource: "serviceaccounts", subresource: "token", namespace: "kafka", name: "anything"}: false,
	}
	without := rights(false, certManagerNeeds("kafka"))
	with := rights(true, certManagerNeeds("kafka"))
	neither := rights(false, certManagerExcess("kafka"))
	tests := map[string]struct {
		files []string
		may   []map[access]bool
	}{
		"all namespaces": {
			files: []string{chartstest.ClusterWide},
			may:   []map[access]bool{{secrets("list", ""): true, secrets("get", "shop"): true}, without, neither},
		},
		"one namespace": {
			files: []string{chartstest.Namespaced},
			may:   []map[access]bool{{secrets("list", ""): false, secrets("get", "shop"): false, secrets("get", "keyturn"): false}, without, neither},
		},
		"all namespaces, with cert-manager": {
			files: []string{chartstest.ClusterWide, chartstest.CertManager},
			may:   []map[access]bool{rights(true, certManagerNeeds("shop")), with, neither},
		},
		"one namespace, with cert-manager": {
			files: []string{chartstest.Namespaced, chartstest.CertManagerNamespaced},
			may:   []map[access]bool{rights(false, []access{issuing("list", "certificates", "shop"), issuing("get", "issuers", "shop")}), with, neither},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := install(t, test.files...)
			for _, rights := range append(test.may, always) {
				for access, want := range rights {
					if got := may(t, operator, access); got != want {
						t.Errorf("%+v: allowed is %t, want %t", access, got, want)
					}
				}
			}
		})
	}
}

func TestTheEtcdOperatorMayDoWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	operator := install(t, chartstest.EtcdOperator)
	const etcd, rbac, signing = "etcd.database.coreos.com", "rbac.authorization.k8s.io", "certificates.k8s.io"
	for access, want := range map[access]bool{
		{verb: "watch", group: "keyturn.dev", resource: "etcdpkis"}:                                                        true,
		{verb: "patch", group: "keyturn.dev", resource: "etcdpkis", name: "default"}:                                       false,
		{verb: "patch", group: "keyturn.dev", resource: "etcdpkis", subresource: "status", name: "default"}:                true,
		{verb: "create", group: signing, resource: "certificatesigningrequests"}:                                           true,
		{verb: "watch", group: signing, resource: "certificatesigningrequests", name: "keyturn-etcd-operator-peer-ca"}:     true,
		{verb: "watch", group: signing, resource: "certificatesigningrequests", name: "keyturn-etcd-operator-client-ca"}:   true,
		{verb: "get", group: signing, resource: "certificatesigningrequests", name: "another"}:                             false,
		{verb: "list", group: signing, resource: "certificatesigningrequests"}:                                             false,
		{verb: "delete", group: signing, resource: "certificatesigningrequests", name: "keyturn-etcd-operator-peer-ca"}:    false,
		{verb: "update", group: signing, resource: "certificatesigningrequests", subresource: "approval", name: "another"}: false,
		{verb: "update", group: signing, resource: "certificatesigningrequests", subresource: "status", name: "another"}:   false,
		{verb: "approve", group: signing, resource: "signers", name: "keyturn.dev/etcd-ca"}:                                false,
		{verb: "sign", group: signing, resource: "signers", name: "keyturn.dev/etcd-ca"}:                                   false,
		{verb: "patch", group: etcd, resource: "etcdclusters", namespace: "etcd"}:                                          true,
		{verb: "delete", group: etcd, resource: "etcdclusters", namespace: "etcd"}:                                         false,
		{verb: "watch", group: etcd, resource: "etcdbackups", namespace: "etcd"}:                                           true,
		{verb: "patch", group: etcd, resource: "etcdbackups", namespace: "etcd"}:                                           false,
		{verb: "patch", group: etcd, resource: "etcdbackups", subresource: "status", namespace: "etcd"}:                    true,
		{verb: "delete", group: etcd, resource: "etcdbackups", namespace: "etcd"}:                                          false,
		{verb: "create", resource: "pods", namespace: "etcd"}:                                                              true,
		{verb: "create", resource: "pods", subresource: "exec", namespace: "etcd"}:                                         false,
		{verb: "create", group: rbac, resource: "roles", namespace: "etcd"}:                                                true,
		{verb: "escalate", group: rbac, resource: "roles", namespace: "etcd"}:                                              false,
		{verb: "bind", group: rbac, resource: "roles", namespace: "etcd"}:                                                  false,
		{verb: "create", group: rbac, resource: "clusterroles"}:                                                            false,
		{verb: "delete", resource: "persistentvolumeclaims", namespace: "etcd"}:                                            true,
		{verb: "create", resource: "serviceaccounts", subresource: "token", namespace: "etcd", name: "any"}:                false,
		{verb: "get", group: "kafka.strimzi.io", resource: "kafkas", namespace: "kafka"}:                                   false,
		{verb: "patch", resource: "pods", subresource: "status", namespace: "etcd"}:                                        false,
		policies("get", "keyturn-etcd-members"):                                                                            true,
		policies("get", "another"):                                                                                         false,
		policies("patch", "keyturn-etcd-members"):                                                                          false,
		{verb: "deletecollection", resource: "persistentvolumeclaims", namespace: "etcd"}:                                  false,
		{verb: "patch", resource: "persistentvolumeclaims", namespace: "etcd"}:                                             true,
		{verb: "get", resource: "namespaces", namespace: "etcd", name: "etcd"}:                                             true,
		{verb: "list", resource: "namespaces"}:                                                                             false,
		{verb: "get", group: "storage.k8s.io", resource: "storageclasses"}:                                                 false,
		{verb: "patch", group: "policy", resource: "poddisruptionbudgets", namespace: "etcd"}:                              true,
		{verb: "patch", group: "networking.k8s.io", resource: "networkpolicies", namespace: "etcd"}:                        true,
		{verb: "delete", group: "networking.k8s.io", resource: "networkpolicies", namespace: "etcd"}:                       false,
		secrets("list", "etcd"):                              false,
		secrets("watch", "keyturn"):                          true,
		secrets("delete", "etcd"):                            false,
		secrets("delete", "keyturn"):                         true,
		leases("update", "keyturn", "keyturn-etcd-operator"): true,
		leases("update", "keyturn", "another"):               false,
	} {
		if got := may(t, operator, access); got != want {
			t.Errorf("%+v: allowed is %t, want %t", access, got, want)
		}
	}
}

func TestTheEtcdOperatorMayWriteSecretsOfApplicationsWhereTheyAreTurnedOnAlone(t *testing.T) {
	t.Parallel()
	reports := rights(true, []access{
		{verb: "watch", group: "keyturn.dev", resource: "etcdaccesses", namespace: "shop"},
		{verb: "patch", group: "keyturn.dev", resource: "etcdaccesses", subresource: "status", namespace: "shop"},
	})
	needs := []access{secrets("watch", "shop"), secrets("delete", "shop")}
	excess := []access{
		{verb: "patch", group: "keyturn.dev", resource: "etcdaccesses", namespace: "shop"},
		{verb: "delete", group: "keyturn.dev", resource: "etcdaccesses", namespace: "shop"},
		{verb: "deletecollection", resource: "secrets", namespace: "shop"},
	}
	for name, test := range map[string]struct {
		file string
		may  []map[access]bool
	}{
		"turned off": {chartstest.EtcdOperator, []map[access]bool{reports, rights(false, needs), rights(false, excess)}},
		"turned on":  {chartstest.EtcdOperatorAccess, []map[access]bool{reports, rights(true, needs), rights(false, excess)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := install(t, test.file)
			for _, rights := range test.may {
				for access, want := range rights {
					if got := may(t, operator, access); got != want {
						t.Errorf("%+v: allowed is %t, want %t", access, got, want)
					}
				}
			}
		})
	}
}

func TestTheUserOperatorMayUseCertManagerInItsNamespaceWithTheGateAlone(t *testing.T) {
	t.Parallel()
	needs := slices.DeleteFunc(certManagerNeeds("kafka"), func(a access) bool { return a == issuing("list", "certificaterequests", "kafka") })
	for name, test := range map[string]struct {
		files []string
		may   []map[access]bool
	}{
		"with the gate off": {[]string{chartstest.UserOperator}, []map[access]bool{rights(false, needs)}},
		"with the gate on": {[]string{chartstest.UserOperator, chartstest.UserOperatorCertManager}, []map[access]bool{
			rights(true, needs), rights(false, certManagerExcess("kafka")),
			rights(false, []access{issuing("get", "certificates", "shop"), issuing("patch", "certificates", "shop")}),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := install(t, test.files...)
			for _, rights := range test.may {
				for access, want := range rights {
					if got := may(t, operator, access); got != want {
						t.Errorf("%+v: allowed is %t, want %t", access, got, want)
					}
				}
			}
		})
	}
}

func issuing(verb, resource, namespace string) access {
	return access{verb: verb, group: "cert-manager.io", resource: resource, namespace: namespace}
}

func definition(verb, name string) access {
	return access{verb: verb, group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: name}
}

// certManagerNeeds is what the operator does so that cert-manager issues certificates in a namespace.
func certManagerNeeds(namespace string) []access {
	needs := []access{
		issuing("get", "clusterissuers", ""),
		{verb: "patch", group: "cert-manager.io", resource: "certificates", subresource: "status", namespace: namespace},
	}
	for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
		needs = append(needs, issuing(verb, "certificates", namespace))
	}
	for _, verb := range []string{"get", "list", "watch"} {
		needs = append(needs, definition(verb, "certificates.cert-manager.io"))
	}
	return append(needs, issuing("get", "certificaterequests", namespace), issuing("list", "certificaterequests", namespace), issuing("get", "issuers", namespace))
}

// certManagerExcess is near to that, and not the operator's to do.
func certManagerExcess(namespace string) []access {
	return []access{
		issuing("create", "certificaterequests", namespace), issuing("approve", "signers", ""), issuing("patch", "issuers", namespace),
		issuing("list", "issuers", namespace), issuing("list", "clusterissuers", ""), issuing("update", "certificates", namespace),
		definition("get", "kafkas.kafka.strimzi.io"), definition("list", ""), definition("patch", "certificates.cert-manager.io"),
	}
}

// rights say of each access whether it is allowed.
func rights(allowed bool, accesses []access) map[access]bool {
	all := map[access]bool{}
	for _, access := range accesses {
		all[access] = allowed
	}
	return all
}

// install starts an API server, applies the manifests, and returns a client that acts as the operator.
func install(t *testing.T, files ...string) client.Client {
	t.Helper()
	server := kubetest.Start(t, envtest.CRDInstallOptions{})
	admin := kubetest.Connect(t, server)
	operator, err := client.New(chartstest.Rights(t, server, filepath.Join("..", ".."), files...), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, object := range chartstest.Objects(t, filepath.Join("..", ".."), file) {
			if err := admin.Create(t.Context(), &object); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatalf("installing the rest of %s: %v", file, err)
			}
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
