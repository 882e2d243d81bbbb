package apitest

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// The label of a claim is taken off before its member has joined.
func TestAClaimWithoutItsLabelIsMarkedBeforeClientsAreSentToItsMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	for range 10 {
		w.reconcile()
		if len(w.claims()) > 0 {
			break
		}
	}
	claim := w.claims()[0]
	w.patch(&claim, merge(`{"metadata": {"labels": {%q: null}}}`, model.ManagedByLabel))
	w.bring()
	if _, isMarked := w.claims()[0].Annotations[model.JoinedAnnotation]; !isMarked {
		t.Errorf("the pod is ready (%t), and the claim is not marked: %v", isReady(w.pod(first)), w.claims()[0].Annotations)
	}
	w.deletePods()
	w.volumes = map[types.UID]uint64{}
	w.etcd = &admintest.Fake{}
	w.forgetStatus()
	w.restart()
	w.turns()
	if w.etcd.Runs(first) {
		t.Errorf("a second cluster runs under the same name; Ready is %+v", w.condition("Ready"))
	}
}

// The claim has two labels of a cluster, as a copy of one of its claims, and is none of a member.
func TestAClaimOfATenantKeepsNoCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.wantAccess(w.namespace, "SecretReady")
	before := w.certificate(w.namespace + ".my-cluster-client-ca-cert")
	forged := &corev1.PersistentVolumeClaim{ObjectMeta: w.meta("innocent"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	forged.Labels = map[string]string{model.ManagedByLabel: model.Manager, model.ClusterLabel: cluster}
	w.create(forged)
	w.delete(w.cluster())
	for range 3 {
		w.reconcile()
		w.play()
	}
	if !w.isGone() {
		t.Fatal("the cluster stays")
	}
	var kept corev1.SecretList
	if err := w.person.List(t.Context(), &kept, client.InNamespace(w.private)); err != nil {
		t.Fatal(err)
	}
	// what the garbage collector does
	w.deletePods()
	for _, kind := range []client.Object{
		&corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	} {
		if err := w.person.DeleteAllOf(t.Context(), kind, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "innocent" {
			w.delete(&claims[i])
			w.patch(&claims[i], merge(`{"metadata": {"finalizers": null}}`))
		}
	}
	w.etcd, w.volumes = &admintest.Fake{}, map[types.UID]uint64{}
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	w.restart()
	w.turns()
	w.turns()
	if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
		t.Errorf("the new cluster does not begin: Ready is %s: %s", ready.Reason, ready.Message)
	}
	if after := w.certificate(w.namespace + ".my-cluster-client-ca-cert"); after.Equal(before) {
		t.Errorf("%d Secrets were kept, and the new cluster has the client CA of the deleted one", len(kept.Items))
	}
}

// The status is lost, one pod too, and its claim is another's for a moment.
func TestAClaimOfAnotherCostsNoMemberWithoutAStatus(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	before := w.idOf(third)
	w.forgetStatus()
	w.restart()
	w.lose(third)
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-" + third}, claim); err != nil {
		t.Fatal(err)
	}
	claim.OwnerReferences = another()
	if err := w.person.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.turns()
	member, isListed := w.etcd.Member(w.names("").PeerURL(third))
	if !isListed || member.ID != before {
		t.Errorf("member %s was %x and is %x (%t) in etcd, although its data is on its claim; Ready is %s: %s", third, before, member.ID, isListed, w.condition("Ready").Reason, w.condition("Ready").Message)
	}
}

// Of the claims that an earlier cluster has left, only one says of which kind that was.
func TestClaimsOfAnotherSpecAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "data-"+third {
			w.patch(&claims[i], merge(`{"metadata": {"annotations": {%q: null}}}`, model.JoinedAnnotation))
		}
	}
	w.leave()
	w.deletePods()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: insecure(3)})
	w.restart()
	w.until("SpecDiffers")
	for _, claim := range w.claims() {
		if owners := claim.OwnerReferences; len(owners) > 0 {
			t.Errorf("claim %s is taken over by the cluster that does not use it, and is deleted with it: %v", claim.Name, owners[0].UID)
		}
	}
}

// The status is lost, and so is the first claim. The others are marked, and have another owner.
func TestMarkedClaimsOfAnotherOwnerKeepAClusterFromBeginningAnew(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(3))
			w.deletePods()
			for _, claim := range w.claims() {
				if claim.Name == "data-"+first {
					w.delete(&claim)
					w.patch(&claim, merge(`{"metadata": {"finalizers": null}}`))
					continue
				}
				claim.OwnerReferences = another()
				if err := w.person.Update(t.Context(), &claim); err != nil {
					t.Fatal(err)
				}
			}
			w.etcd = &admintest.Fake{} // what starts is a cluster of its own
			w.forgetStatus()
			w.restart()
			w.turns()
			t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if w.etcd.Runs(first) {
				t.Error("a new cluster has begun beside the data of the earlier one")
			}
		})
	}
}

// The marks of two claims of three are gone; all data are there. Then the status is lost.
func TestMissingMarksDoNotKeepAClusterFromComingBack(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	ids := w.ids()
	w.deletePods()
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "data-"+first {
			w.patch(&claims[i], merge(`{"metadata": {"annotations": {%q: null}}}`, model.JoinedAnnotation))
		}
	}
	w.forgetStatus()
	w.restart()
	w.turns()
	w.turns()
	if ready := w.condition("Ready"); ready.Reason != "MembersReady" || !maps.Equal(ids, w.ids()) {
		t.Errorf("members were %v and are %v; Ready is %s: %s", ids, w.ids(), ready.Reason, ready.Message)
	}
}
