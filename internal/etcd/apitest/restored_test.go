package apitest

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// A cluster is created again with its backed up CAs, which have the UID of the earlier cluster.
func TestACreatedClusterUsesBackedUpCAsAsTheMessageSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	saved := []*corev1.Secret{}
	for _, suffix := range []string{"-peer-ca", "-peer-ca-cert", "-client-ca", "-client-ca-cert", "-operator"} {
		saved = append(saved, w.secret(w.private, w.namespace+".my-cluster"+suffix))
	}
	before := saved[1].Data
	w.removeCluster()
	for _, secret := range saved {
		secret.ResourceVersion, secret.UID = "", ""
		w.create(secret)
	}
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	for range saved {
		w.reconcile()
		ready := w.condition(etcdv1beta2.ConditionReady)
		if ready.Reason != "ForeignObject" {
			t.Fatalf("Ready is %+v", ready)
		}
		remedy := model.ClusterUIDLabel + "=" + string(w.cluster().UID)
		if !strings.Contains(ready.Message, remedy) || strings.Contains(ready.Message, "elete it") {
			t.Errorf("the message is %q, want %q", ready.Message, remedy)
		}
		_, name, _ := strings.Cut(strings.Fields(ready.Message)[1], "/")
		w.patch(w.secret(w.private, name), labelling(model.ClusterUIDLabel, string(w.cluster().UID)))
	}
	w.bring()
	if after := w.secret(w.private, saved[1].Name).Data; !reflect.DeepEqual(before, after) {
		t.Error("the cluster has another CA")
	}
}

// removeCluster deletes the cluster, and what a garbage collector would.
func (w *world) removeCluster() {
	w.t.Helper()
	w.delete(w.cluster())
	for range 3 {
		w.reconcile()
		w.play()
	}
	for _, kind := range []client.Object{
		&corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.PersistentVolumeClaim{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	} {
		if err := w.person.DeleteAllOf(w.t.Context(), kind, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}
	}
	claims := w.claims()
	for i := range claims {
		w.patch(&claims[i], merge(`{"metadata": {"finalizers": null}}`))
	}
	w.etcd, w.volumes = &admintest.Fake{}, map[types.UID]uint64{}
	w.restart()
}

func TestACAWithoutItsLabelIsKeptAsTheMessageSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	key := w.secret(w.private, w.namespace+".my-cluster-peer-ca")
	w.patch(key, merge(`{"metadata": {"labels": {%q: null}}}`, model.ClusterUIDLabel))
	message, remedy := w.until("ForeignObject"), model.ClusterUIDLabel+"="+string(w.cluster().UID)
	if !strings.Contains(message, remedy) || strings.Contains(message, "elete it") {
		t.Errorf("the message is %q, want %q", message, remedy)
	}
	w.patch(key, labelling(model.ClusterUIDLabel, string(w.cluster().UID)))
	w.bring()
}
