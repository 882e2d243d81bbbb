package apitest

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

func TestTheRightsOfTheChartSuffice(t *testing.T) {
	t.Parallel()
	rights := chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.EtcdOperator)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "etcd-"}}
	if err := connect(t, apiServer).Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := newWorldIn(t, namespace.Name, "keyturn", connect(t, rights), of(2))
	w.bring()
	w.setAddress(w.pod(first), "10.0.7.7")
	w.reconcile()
	w.delete(w.cluster())
	w.reconcile()
	for _, pod := range w.pods() {
		if err := client.IgnoreNotFound(w.person.Delete(t.Context(), &pod, client.GracePeriodSeconds(0))); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcile()
	if found := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, &etcdv1beta2.EtcdCluster{}); client.IgnoreNotFound(found) != nil || found == nil {
		t.Errorf("the cluster: %v, want that it is gone", found)
	}
}

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
