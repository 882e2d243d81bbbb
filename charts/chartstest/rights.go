package chartstest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Files of config/install; all but the last are for Rights.
const (
	// ClusterWide watches all namespaces.
	ClusterWide = "keyturn.yaml"
	// Namespaced watches the namespace kafka alone.
	Namespaced = "keyturn-namespaced.yaml"
	// UserOperator looks after the users of the Kafka my-cluster in the namespace kafka.
	UserOperator = "keyturn-user-operator.yaml"
	// TopicOperator looks after the topics of the Kafka my-cluster in the namespace kafka.
	TopicOperator = "keyturn-topic-operator.yaml"
	// AccessOperator watches all namespaces.
	AccessOperator = "keyturn-access-operator.yaml"
	// CertManager has the rights for CAs of the type cert-manager.io in all namespaces, beside ClusterWide.
	CertManager = "keyturn-cert-manager.yaml"
	// CertManagerNamespaced has them in the namespace kafka, beside Namespaced.
	CertManagerNamespaced = "keyturn-cert-manager-namespaced.yaml"
	// UserOperatorCertManager has the rights for a clients CA of that type, beside UserOperator.
	UserOperatorCertManager = "keyturn-user-operator-cert-manager.yaml"
	// EtcdOperator watches all namespaces.
	EtcdOperator = "keyturn-etcd-operator.yaml"
	// EtcdOperatorAccess is EtcdOperator with EtcdAccesses.
	EtcdOperatorAccess = "keyturn-etcd-operator-access.yaml"
	// Definitions holds the CustomResourceDefinitions alone.
	Definitions = "crds.yaml"
)

// Rights installs the ServiceAccount and the roles of files of config/install in the API server of admin, and
// returns a configuration that acts as that ServiceAccount. Namespaces are made as needed. The root is the
// folder of the repository, as seen from the test.
func Rights(t *testing.T, admin *rest.Config, root string, files ...string) *rest.Config {
	t.Helper()
	writer, err := client.New(admin, client.Options{})
	if err != nil {
		t.Fatalf("reaching the API server: %v", err)
	}
	var account types.NamespacedName
	for _, object := range objectsOf(t, root, files) {
		group := object.GroupVersionKind().Group
		if group != rbacv1.GroupName && object.GetKind() != rbacv1.ServiceAccountKind {
			continue
		}
		if object.GetKind() == rbacv1.ServiceAccountKind {
			account = client.ObjectKeyFromObject(&object)
		}
		ensureNamespace(t, writer, object.GetNamespace())
		if err := writer.Create(t.Context(), &object); err != nil {
			t.Fatalf("installing %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	operator := rest.CopyConfig(admin)
	operator.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	return operator
}

// Objects returns the objects of a file of config/install in their order.
func Objects(t *testing.T, root, file string) []unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "config", "install", file))
	if err != nil {
		t.Fatalf("%v: run make generate", err)
	}
	var objects []unstructured.Unstructured
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("splitting %s: %v", file, err)
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatalf("parsing a part of %s: %v", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func objectsOf(t *testing.T, root string, files []string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for _, file := range files {
		objects = append(objects, Objects(t, root, file)...)
	}
	return objects
}

func ensureNamespace(t *testing.T, writer client.Client, name string) {
	t.Helper()
	if name == "" {
		return
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := writer.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("making the namespace %s: %v", name, err)
	}
}
