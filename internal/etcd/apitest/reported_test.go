package apitest

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// A certificate of another member is due.
func TestAMemberThatCannotBeAnsweredKeepsNoOtherFromItsCertificate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		break1st func(w *world)
		reason   string
		says     string
	}{
		"its Secret is immutable": {func(w *world) {
			w.patch(&corev1.Secret{ObjectMeta: w.meta(first)}, merge(`{"immutable": true}`))
		}, "ReconciliationFailed", "Secret \"my-cluster-0\""},
		"its annotations leave no room": {func(w *world) {
			const limit = 256 << 10
			kept := w.pod(first).Annotations
			delete(kept, keyturnagent.PublishedAnnotation) // which is to be written again
			w.patch(&corev1.Pod{ObjectMeta: w.meta(first)}, merge(`{"metadata": {"annotations": {"example.com/full": %q, %q: null}}}`,
				strings.Repeat("x", limit-sizeOf(kept)-len("example.com/full")), keyturnagent.PublishedAnnotation))
		}, "ReconciliationFailed", "my-cluster-0"},
		"it has another owner": {func(w *world) {
			w.patch(&corev1.Pod{ObjectMeta: w.meta(first)}, merge(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true}]}}`))
		}, "ForeignObject", "Pod my-cluster-0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(3))
			w.bring()
			test.break1st(w)
			w.clock.SetTime(noon().Add(481 * time.Hour)) // certificates are due
			w.setAddress(w.pod(second), "10.0.7.7")
			w.told("")
			result := w.reconcile()
			if leaf := w.chain(w.pod(second), contract.PeerPlane)[0]; leaf.VerifyHostname("10.0.7.7") != nil {
				t.Error("the certificate of the other member is not issued")
			}
			ready := w.condition(etcdv1beta2.ConditionReady)
			if ready.Status != metav1.ConditionFalse || ready.Reason != test.reason || !strings.Contains(ready.Message, test.says) {
				t.Errorf("Ready is %+v", ready)
			}
			if result.RequeueAfter == 0 || result.RequeueAfter > time.Minute || !w.told(test.reason) {
				t.Errorf("the next reconcile is in %s, and an event may be missing", result.RequeueAfter)
			}
			issued := len(w.ledger())
			for range 3 {
				w.reconcile()
			}
			if more := len(w.ledger()) - issued; more > 0 {
				t.Errorf("%d certificates are issued that cannot be delivered", more)
			}
		})
	}
}

func (w *world) patch(object client.Object, patch client.Patch) {
	w.t.Helper()
	if err := w.person.Patch(w.t.Context(), object, patch); err != nil {
		w.t.Fatal(err)
	}
}

// restrict has the API server refuse pods that run as root.
func (w *world) restrict() {
	w.t.Helper()
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, labelling("pod-security.kubernetes.io/enforce", "restricted"))
	probe := other(w.namespace, "probe")
	w.eventually("pods are refused", func() bool {
		return w.person.Create(w.t.Context(), probe.DeepCopy(), client.DryRunAll) != nil
	})
}

func asRoot(size int32) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.Pod = &etcdv1beta2.PodPolicy{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(false), RunAsUser: new(int64(0))}}
	return spec
}

func TestWhatTheAPIServerRefusesIsReported(t *testing.T) {
	t.Parallel()
	invalid := of(1)
	invalid.Pod = &etcdv1beta2.PodPolicy{Labels: map[string]string{"example.com/a": "not valid!"}}
	for name, test := range map[string]struct {
		spec   etcdv1beta2.EtcdClusterSpec
		isNew  bool
		do     func(w *world)
		reason string
		says   string
	}{
		"a pod of a new cluster": {spec: asRoot(1), isNew: true, do: (*world).restrict, reason: "PodsRefused", says: "restricted"},
		"a label of a pod":       {spec: invalid, isNew: true, do: func(*world) {}, reason: "PodsRefused", says: "not valid!"},
		"a pod that was deleted": {spec: asRoot(1), do: func(w *world) {
			w.restrict()
			w.delete(w.pod(first))
			w.etcd.Stop(w.t, first)
		}, reason: "PodsRefused", says: "restricted"},
		"a PodDisruptionBudget that was edited": {spec: of(3), do: func(w *world) {
			w.patch(&policyv1.PodDisruptionBudget{ObjectMeta: w.meta(cluster)}, merge(`{"spec": {"minAvailable": null, "maxUnavailable": 1}}`))
		}, reason: "ReconciliationFailed", says: "PodDisruptionBudget"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.spec)
			if !test.isNew {
				w.bring()
			}
			test.do(w)
			w.told("")
			for range 3 {
				w.reconcile()
			}
			ready := w.condition(etcdv1beta2.ConditionReady)
			if ready.Status != metav1.ConditionFalse || ready.Reason != test.reason || !strings.Contains(ready.Message, test.says) {
				t.Errorf("Ready is %+v", ready)
			}
			if !w.told(test.reason) {
				t.Error("no event says so")
			}
			if wait := w.reconcile().RequeueAfter; wait == 0 || wait > time.Minute {
				t.Errorf("the next reconcile is in %s", wait)
			}
		})
	}
}

func TestAPodOfAMemberThatLacksItsLabelsIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	owners := w.pod(second).OwnerReferences
	for _, name := range []string{second, third} {
		w.delete(w.pod(name))
		w.etcd.Stop(t, name)
		pod := other(w.namespace, name)
		pod.OwnerReferences = owners
		w.create(pod)
	}
	wait := time.Duration(0)
	for range 5 {
		wait = w.reconcile().RequeueAfter
	}
	ready, available := w.condition(etcdv1beta2.ConditionReady), w.condition(etcdv1beta2.ConditionAvailable)
	if ready.Reason != "UnknownMemberPod" || available.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "Pod my-cluster-") {
		t.Errorf("Ready is %+v, Available is %+v", ready, available)
	}
	if wait == 0 || wait > time.Minute { // it is not watched
		t.Errorf("the next reconcile is in %s", wait)
	}
	ids := w.ids()
	for _, name := range []string{second, third} {
		w.delete(w.pod(name))
	}
	w.bring()
	if !maps.Equal(ids, w.ids()) {
		t.Errorf("the members are %v, before %v", w.ids(), ids)
	}
}

// No Secret of the operator's namespace is watched.
func TestARestoredCAIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(3600)
	w.access(w.namespace, "")
	saved := w.secret(w.private, w.namespace+".my-cluster-client-ca")
	w.delete(saved.DeepCopy())
	for what, try := range map[string]func() (ctrl.Result, error){
		"the EtcdCluster": w.try, "the EtcdBackup": w.tryBackup, "the EtcdAccess": func() (ctrl.Result, error) { return w.tryAccess(w.namespace) },
	} {
		if result, err := try(); err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
			t.Errorf("the next look at %s is in %s: %v", what, result.RequeueAfter, err)
		}
	}
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != "CALost" {
		t.Fatalf("Ready is %+v", ready)
	}
	saved.ResourceVersion, saved.UID = "", ""
	w.create(saved)
	w.bring()
	w.atRest()
}

func TestARestoredKeyOfTheOperatorsCAIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	saved := w.secret(w.private, "keyturn-etcd-operator-peer-ca")
	w.delete(saved.DeepCopy())
	another := &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta("another"), Spec: of(1)}
	w.create(another)
	look := func() (string, time.Duration) {
		result, err := w.operator.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(another)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(another), another); err != nil {
			t.Fatal(err)
		}
		return another.Status.Conditions[0].Reason, result.RequeueAfter
	}
	if reason, wait := look(); reason != "CALost" || wait == 0 || wait > time.Minute {
		t.Errorf("Ready is %s, and the next look is in %s", reason, wait)
	}
	saved.ResourceVersion, saved.UID = "", ""
	w.create(saved)
	if reason, _ := look(); reason == "CALost" {
		t.Error("the restored Secret is not noticed")
	}
}
