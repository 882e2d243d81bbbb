package servertest

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestTheAccountOfAPodAnnotatesThatPodAndNoOther(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skip("needs $" + assets + " and $" + etcdHomes)
	}
	api, pod := accountOf(t)
	own, err := ownpod.New(api, ownpod.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "request"}); err != nil {
		t.Fatal(err)
	}
	direct := kubetest.Connect(t, apiServer)
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Annotations["kubeEtcdCSR-peer"] != "request" {
		t.Errorf("annotations %v, %v; want the request", pod.Annotations, err)
	}
	byAgent := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "keyturn-agent" }
	if !slices.ContainsFunc(pod.ManagedFields, byAgent) {
		t.Errorf("managed fields %v, want some of the agent", pod.ManagedFields)
	}
	another, err := ownpod.New(api, ownpod.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: "another-uid"})
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "another"}); err == nil || !strings.Contains(err.Error(), "metadata.uid: Invalid value") {
		t.Errorf("error %v, want that the API server refused the UID", err)
	}
}

// accountOf makes a pod that nothing runs, and an account that may patch it, as the kubelet mounts it.
func accountOf(t *testing.T) (ownpod.API, *corev1.Pod) {
	t.Helper()
	direct := kubetest.Connect(t, apiServer)
	named := metav1.ObjectMeta{Namespace: kubetest.Namespace(t, direct, "account-"), Name: "my-cluster-0"}
	account := &corev1.ServiceAccount{ObjectMeta: named}
	pod := &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{
		ServiceAccountName: named.Name, Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}},
	}}
	for _, object := range []client.Object{
		account, pod,
		&rbacv1.Role{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{named.Name}, Verbs: []string{"patch"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: named.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: named.Namespace, Name: named.Name}},
		},
	} {
		if err := direct.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := direct.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"token": []byte(request.Status.Token), "ca.crt": apiServer.CAData} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := url.Parse(apiServer.Host)
	if err != nil {
		t.Fatal(err)
	}
	return ownpod.API{URL: *address, Transport: ownpod.Account{Dir: dir}}, pod
}
