package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

func TestAMemberMayChangeItsOwnPodAndNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":" + first,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	member := connect(t, config)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"`+contract.PeerPlane.RequestAnnotation()+`": "x"}}}`))
	for name, want := range map[string]bool{first: true, "my-cluster-1": false} {
		if err := member.Patch(t.Context(), &corev1.Pod{ObjectMeta: w.meta(name)}, patch); (err == nil) != want {
			t.Errorf("the member changes pod %s: %v", name, err)
		}
	}
	for name, object := range map[string]client.Object{"its Secret": &corev1.Secret{}, "a Service": &corev1.Service{}} {
		if err := member.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, object); err == nil {
			t.Errorf("the member reads %s", name)
		}
	}
}
