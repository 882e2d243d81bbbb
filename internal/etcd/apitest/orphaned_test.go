package apitest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// orphan deletes the cluster without its objects.
func (w *world) orphan() {
	w.t.Helper()
	if err := w.person.Delete(w.t.Context(), w.cluster(), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		w.t.Fatal(err)
	}
}

// collect does what the garbage collector does for a cluster that is deleted without its objects.
func (w *world) collect() {
	w.t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{},
	} {
		for _, object := range w.list(list) {
			w.patch(object, merge(`{"metadata": {"ownerReferences": null}}`))
		}
	}
	w.patch(w.cluster(), merge(`{"metadata": {"finalizers": %s}}`, w.finalizersBut(metav1.FinalizerOrphanDependents)))
}

// list are the objects of the namespace that an EtcdCluster owns or has owned.
func (w *world) list(list client.ObjectList) []client.Object {
	w.t.Helper()
	if err := w.person.List(w.t.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{model.ClusterLabel: cluster}); err != nil {
		w.t.Fatal(err)
	}
	var objects []client.Object
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	for i := range items.Len() {
		object, is := reflect.TypeAssert[client.Object](items.Index(i).Addr())
		if !is {
			w.t.Fatalf("%T is no object", items.Index(i).Interface())
		}
		objects = append(objects, object)
	}
	return objects
}

func (w *world) finalizersBut(finalizer string) []byte {
	w.t.Helper()
	kept := slices.DeleteFunc(w.cluster().Finalizers, func(name string) bool { return name == finalizer })
	if len(kept) == 0 {
		return []byte("null")
	}
	return []byte(`["` + strings.Join(kept, `", "`) + `"]`)
}

// privateData are the Secrets of the cluster in the operator's namespace.
func (w *world) privateData() map[string]map[string][]byte {
	w.t.Helper()
	data := map[string]map[string][]byte{}
	for _, name := range []string{"peer-ca", "peer-ca-cert", "client-ca", "client-ca-cert", "operator"} {
		data[name] = w.secret(w.private, w.namespace+".my-cluster-"+name).Data
	}
	return data
}

func (w *world) identities() map[string]types.UID {
	w.t.Helper()
	uids := map[string]types.UID{}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}} {
		for _, object := range w.list(list) {
			uids[reflect.TypeOf(object).String()+" "+object.GetName()] = object.GetUID()
		}
	}
	return uids
}

// isGone reports whether the cluster does not exist any more.
func (w *world) isGone() bool {
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, &etcdv1beta2.EtcdCluster{})
	return apierrors.IsNotFound(err)
}

func TestAClusterThatIsDeletedWithoutItsObjectsIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *world){
		"the operator looks before the garbage collector": func(w *world) { w.reconcile(); w.collect() },
		"the operator looks after the garbage collector":  func(w *world) { w.collect(); w.restart(); w.reconcile() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(3))
			w.bring()
			private, uids, ids, issued := w.privateData(), w.identities(), w.ids(), w.ledger()
			w.orphan()
			remove(w)
			if !w.isGone() {
				t.Fatalf("the cluster stays: %v", w.cluster().Finalizers)
			}
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(3)})
			w.restart()
			w.bring()
			if !reflect.DeepEqual(private, w.privateData()) {
				t.Error("CAs or the operator's certificate have changed")
			}
			if !maps.Equal(uids, w.identities()) || !maps.Equal(ids, w.ids()) {
				t.Errorf("objects were replaced: %v %v, before %v %v", w.identities(), w.ids(), uids, ids)
			}
			if !maps.Equal(issued, w.ledger()) {
				t.Error("the ledger has changed")
			}
			w.ownsAll()
			w.atRest()
			w.clock.SetTime(noon().Add(490 * time.Hour))
			w.reconcile()
			for _, pod := range w.pods() {
				if !w.chain(&pod, contract.PeerPlane)[0].NotAfter.After(noon().Add(721 * time.Hour)) {
					t.Errorf("the certificate of pod %s is not renewed", pod.Name)
				}
			}
		})
	}
}

// ownsAll fails the test unless the cluster controls all of its objects.
func (w *world) ownsAll() {
	w.t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{},
	} {
		for _, object := range w.list(list) {
			if !metav1.IsControlledBy(object, w.cluster()) {
				w.t.Errorf("%T %s is not of the cluster: %+v", object, object.GetName(), object.GetOwnerReferences())
			}
		}
	}
}

// A crash before any write loses nothing, and the next operator goes on.
func TestAnOperatorThatCrashesWhileItTakesOverContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	private, uids := w.privateData(), w.identities()
	w.orphan()
	w.collect()
	w.reconcile()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	for range 40 { // one write each
		w.restart()
		w.writer.CrashAt = 2
		_, _ = w.try()
	}
	w.restart()
	w.bring()
	if !reflect.DeepEqual(private, w.privateData()) || !maps.Equal(uids, w.identities()) {
		t.Error("something was replaced")
	}
	w.ownsAll()
}

func TestClaimsThatAreLeftAreTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	private, ids := w.privateData(), w.ids()
	w.orphan()
	w.collect()
	w.reconcile()
	w.deletePods()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(3)})
	w.restart()
	w.bring()
	if !reflect.DeepEqual(private, w.privateData()) || !maps.Equal(ids, w.ids()) {
		t.Errorf("the members are %v, before %v", w.ids(), ids)
	}
	w.ownsAll()
}

// A pod for which the operator has never signed is no member's, whatever it looks like.
func TestAPodThatWasNotSignedForIsNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.orphan()
	w.collect()
	w.reconcile()
	forged := w.pod(first)
	w.delete(forged.DeepCopy())
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: first, Labels: forged.Labels, Annotations: forged.Annotations}
	w.create(forged)
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	w.restart()
	for range 5 {
		w.reconcile()
	}
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != "UnknownMemberPod" || len(w.status().MemberStatuses) > 0 {
		t.Errorf("Ready is %+v", ready)
	}
}

// The namespace was deleted and created again for another tenant, which makes what looks like the objects of the cluster before.
func TestCAsOfAnEarlierNamespaceAreNotTakenOver(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(w *world, secret *corev1.Secret){
		"of another namespace": func(w *world, secret *corev1.Secret) {
			w.patch(secret, labelling(model.NamespaceUIDLabel, "00000000-0000-0000-0000-000000000000"))
		},
		"of no known namespace": func(w *world, secret *corev1.Secret) {
			w.patch(secret, merge(`{"metadata": {"labels": {%q: null}}}`, model.NamespaceUIDLabel))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			w.bring()
			w.orphan()
			w.collect()
			w.reconcile()
			for suffix := range w.privateData() {
				forget(w, w.secret(w.private, w.namespace+".my-cluster-"+suffix))
			}
			w.delete(&corev1.ConfigMap{ObjectMeta: w.ofOperator("issued")})
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
			w.restart()
			before := w.privateData()
			message := w.until("ForeignObject")
			if !strings.Contains(message, "clients of the earlier cluster are let in") {
				t.Errorf("the message is %q", message)
			}
			if !reflect.DeepEqual(before, w.privateData()) || len(w.status().MemberStatuses) > 0 {
				t.Error("the CAs are used")
			}
		})
	}
}

// Nothing of the cluster is left in its namespace.
func TestCAsWithoutMembersAreNotTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.orphan()
	w.collect()
	w.reconcile()
	w.deletePods()
	claims := w.claims()
	for i := range claims {
		w.delete(&claims[i])
		w.patch(&claims[i], merge(`{"metadata": {"finalizers": null}}`))
	}
	w.etcd, w.volumes = &admintest.Fake{}, map[types.UID]uint64{}
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	w.restart()
	w.until("ForeignObject")
}

// A pod that has lost its owner is the cluster's again. One with another owner is not.
func TestARecordedPodThatHasLostItsOwnerIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.patch(w.pod(first), merge(`{"metadata": {"ownerReferences": null}}`))
	w.bring()
	w.ownsAll()
	w.atRest()
}

// A backup that is created again takes over what was left of it.
func TestABackupThatIsCreatedAgainTakesOverItsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(3600)
	w.backsUp("BackupRunning")
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: w.meta(backupPod)}, &rbacv1.Role{ObjectMeta: w.meta(backupPod)},
		&rbacv1.RoleBinding{ObjectMeta: w.meta(backupPod)}, &corev1.Secret{ObjectMeta: w.meta(backupPod)},
	} {
		w.patch(object, merge(`{"metadata": {"ownerReferences": null}}`))
	}
	w.delete(w.pod(backupPod))
	w.delete(w.backup())
	w.backUp(3600)
	w.backsUp("BackupRunning")
	if pod := w.pod(backupPod); !metav1.IsControlledBy(pod, w.backup()) {
		t.Error("the pod is not of the EtcdBackup")
	}
}

// Pods without certificates cannot pass for others.
func TestAClusterWithoutTLSIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, insecure(3))
	w.bring()
	objects, ids := w.identities(), w.ids()
	w.orphan()
	w.collect()
	w.reconcile()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: insecure(3)})
	w.restart()
	w.bring()
	if !maps.Equal(objects, w.identities()) || !maps.Equal(ids, w.ids()) {
		t.Error("objects were replaced")
	}
	w.ownsAll()
	w.atRest()
}

// A new CA would reach members that trust the lost one.
func TestALostCAOfMembersThatAreLeftIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"pods are left": func(*world) {},
		"claims and Secrets are left": func(w *world) {
			w.deletePods()
			w.delete(&corev1.ConfigMap{ObjectMeta: w.ofOperator("issued")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			w.bring()
			w.orphan()
			w.collect()
			w.reconcile()
			lost := []*corev1.Secret{}
			for _, suffix := range []string{"peer-ca", "peer-ca-cert"} {
				secret := w.secret(w.private, w.namespace+".my-cluster-"+suffix)
				lost = append(lost, secret.DeepCopy())
				w.delete(secret)
			}
			lose(w)
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
			w.restart()
			w.until("CALost")
			for _, secret := range lost {
				secret.ResourceVersion, secret.UID = "", ""
				w.create(secret)
			}
			w.bring()
			w.ownsAll()
		})
	}
}
