package apitest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// swap puts another CA of the same name into the Secrets of a plane, and returns what undoes that.
func (w *world) swap(plane contract.Plane) (other pki.Authority, restore func()) {
	w.t.Helper()
	name := w.namespace + ".my-cluster-" + string(plane) + "-ca"
	other, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: w.namespace, CommonName: "my-cluster " + string(plane) + "-ca v0"}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 43800 * time.Hour, Now: noon(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	key := w.setEntry(w.private, name, "ca.key", other.Key().PEM())
	cert := w.setEntry(w.private, name+"-cert", "ca.crt", pki.EncodeBundle(other.Certificate()))
	return other, func() {
		w.setEntry(w.private, name, "ca.key", key)
		w.setEntry(w.private, name+"-cert", "ca.crt", cert)
	}
}

// setEntry changes an entry of a Secret and returns what it was.
func (w *world) setEntry(namespace, name, entry string, data []byte) []byte {
	w.t.Helper()
	secret := w.secret(namespace, name)
	before := secret.DeepCopy()
	secret.Data[entry] = data
	w.patch(secret, client.MergeFrom(before))
	return before.Data[entry]
}

// kept are the Secrets of members, and that of the operator as far as it depends on the CA of a plane.
func (w *world) kept(plane contract.Plane) map[string]map[string][]byte {
	w.t.Helper()
	var secrets corev1.SecretList
	if err := w.person.List(w.t.Context(), &secrets, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	operator := w.secret(w.private, w.namespace+".my-cluster-operator").Data
	if plane == contract.PeerPlane {
		operator = map[string][]byte{model.OperatorAnchorsEntry: operator[model.OperatorAnchorsEntry]}
	}
	kept := map[string]map[string][]byte{"operator": operator}
	for _, secret := range secrets.Items {
		kept[secret.Name] = secret.Data
	}
	return kept
}

// held fails the test unless the cluster reports a CA that is not that of its members, and publishes nothing.
func (w *world) held(plane contract.Plane, before map[string]map[string][]byte) {
	w.t.Helper()
	var wait time.Duration
	for range 3 {
		wait = w.reconcile().RequeueAfter
	}
	for _, kind := range []string{etcdv1beta2.ConditionReady, etcdv1beta2.ConditionPKIReady} {
		condition := w.condition(kind)
		if condition.Status != metav1.ConditionFalse || condition.Reason != "CAChanged" || !strings.Contains(condition.Message, "my-cluster-"+string(plane)+"-ca-cert") {
			w.t.Errorf("the condition is %+v", condition)
		}
	}
	if wait == 0 || wait > time.Minute {
		w.t.Errorf("the next reconcile is in %s", wait)
	}
	if !reflect.DeepEqual(before, w.kept(plane)) {
		w.t.Error("what members and the operator trust has changed")
	}
}

func TestACAThatMembersDoNotTrustIsNotPublished(t *testing.T) {
	t.Parallel()
	for _, plane := range contract.Planes() {
		for name, lose := range map[string]func(w *world){
			"all pods run":          func(*world) {},
			"the ledger is lost":    func(w *world) { w.delete(&corev1.ConfigMap{ObjectMeta: w.ofOperator("issued")}) },
			"one pod is gone":       func(w *world) { w.delete(w.pod(second)) },
			"all pods are gone":     (*world).deletePods,
			"only Secrets are left": func(w *world) { w.deletePods(); w.delete(&corev1.ConfigMap{ObjectMeta: w.ofOperator("issued")}) },
			"the status is lost": func(w *world) {
				w.deletePods()
				w.forgetStatus()
			},
		} {
			t.Run(string(plane)+" CA/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, of(3))
				w.bring()
				_, restore := w.swap(plane)
				lose(w)
				before := w.kept(plane)
				w.clock.SetTime(noon().Add(490 * time.Hour)) // certificates are due
				pods := len(w.pods())
				w.held(plane, before)
				if len(w.pods()) > pods {
					t.Error("a pod is created")
				}
				for _, pod := range w.pods() {
					if w.chain(&pod, plane)[0].NotAfter.After(noon().Add(721 * time.Hour)) {
						t.Errorf("pod %s has another certificate", pod.Name)
					}
				}
				restore()
				w.reconcile()
				if reason := w.condition(etcdv1beta2.ConditionPKIReady).Reason; reason != "CAsCreated" {
					t.Errorf("after the Secrets are restored PKIReady is %s", reason)
				}
			})
		}
	}
}

// What was restored of the operator's namespace fits together, and is of another cluster.
func TestPodsSayWhichCAMembersTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	other, restore := w.swap(contract.PeerPlane)
	ledger := &corev1.ConfigMap{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.private, Name: w.namespace + ".my-cluster-issued"}, ledger); err != nil {
		t.Fatal(err)
	}
	issued, err := enroll.ParseLedger(ledger.Data)
	if err != nil {
		t.Fatal(err)
	}
	for serial, entry := range issued {
		entry.CA = pki.FingerprintOf(other.Certificate()).String()
		issued[serial] = entry
	}
	before := ledger.DeepCopy()
	if ledger.Data, err = issued.Encode(); err != nil {
		t.Fatal(err)
	}
	w.patch(ledger, client.MergeFrom(before))
	w.held(contract.PeerPlane, w.kept(contract.PeerPlane))
	restore()
	w.bring()
}

// What is wrong with one CA must not end the certificates of the other one.
func TestCertificatesAreRenewedByOneCAWhileTheOtherCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil  func(w *world, names model.Names, plane contract.Plane)
		reason model.Reason
		// stands is true where the CA itself signs what members have.
		stands bool
	}{
		"another CA is in its Secrets": {func(w *world, _ model.Names, plane contract.Plane) { w.swap(plane) }, model.CAChanged, false},
		"its key cannot be read": {func(w *world, names model.Names, plane contract.Plane) {
			w.setEntry(w.private, names.CAKeySecret(plane), authority.KeyKey, []byte("no key"))
		}, model.CAUnusable, false},
		"its key is lost": {func(w *world, names model.Names, plane contract.Plane) {
			w.delete(w.secret(w.private, names.CAKeySecret(plane)))
		}, model.CALost, false},
		"its key is not known to be of the cluster": {func(w *world, names model.Names, plane contract.Plane) {
			w.patch(w.secret(w.private, names.CAKeySecret(plane)), merge(`{"metadata": {"labels": null}}`))
		}, model.ForeignObject, false},
		"one to come cannot be read": {func(w *world, names model.Names, plane contract.Plane) {
			w.setEntry(w.private, names.CAKeySecret(plane), authority.PendingKeyKey, []byte("no key"))
		}, model.CAUnusable, true},
	} {
		for _, plane := range contract.Planes() {
			t.Run(string(plane)+" CA/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, of(3))
				w.bring()
				test.spoil(w, w.clusterNames(), plane)
				before, until := w.kept(plane), noon().Add(721*time.Hour)
				w.clock.SetTime(noon().Add(490 * time.Hour)) // certificates are due
				for range 3 {
					w.reconcile()
				}
				if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != string(test.reason) {
					t.Errorf("Ready is %s: %s, want %s", ready.Reason, ready.Message, test.reason)
				}
				if after := w.kept(plane); !reflect.DeepEqual(before, after) {
					t.Error("what members and the operator trust has changed")
				}
				operator, err := pki.FirstCertificate(w.secret(w.private, w.clusterNames().OperatorSecret()).Data[model.OperatorCertEntry])
				if err != nil {
					t.Fatal(err)
				}
				if isRenewed, want := operator.NotAfter.After(until), plane == contract.PeerPlane; isRenewed != want {
					t.Errorf("the operator's certificate is renewed: %t, want %t", isRenewed, want)
				}
				for _, pod := range w.pods() {
					for _, of := range contract.Planes() {
						isRenewed := w.chain(&pod, of)[0].NotAfter.After(until)
						if want := of != plane || test.stands; isRenewed != want {
							t.Errorf("the %s certificate of pod %s is renewed: %t, want %t", of, pod.Name, isRenewed, want)
						}
					}
				}
			})
		}
	}
}

func TestTheOperatorsSecretSaysWhichClientCAIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.deletePods()
	w.delete(&corev1.ConfigMap{ObjectMeta: w.ofOperator("issued")})
	w.delete(w.secret(w.namespace, first))
	w.swap(contract.ClientPlane)
	w.held(contract.ClientPlane, w.kept(contract.ClientPlane))
}

// ofOperator names an object of the cluster in the operator's namespace.
func (w *world) ofOperator(suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.private, Name: w.namespace + ".my-cluster-" + suffix}
}

func (w *world) deletePods() {
	w.t.Helper()
	pods := w.pods()
	for i := range pods {
		w.delete(&pods[i])
		w.etcd.Stop(w.t, pods[i].Name)
	}
}

func (w *world) forgetStatus() {
	w.t.Helper()
	if err := w.person.Status().Patch(w.t.Context(), w.cluster(), merge(`{"status": null}`)); err != nil {
		w.t.Fatal(err)
	}
}

func TestACAThatMembersDoNotTrustSignsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(3600)
	w.access(w.namespace, "")
	_, restore := w.swap(contract.ClientPlane)
	w.wantAccess(w.namespace, string(model.CANotReady))
	w.backsUp(string(model.CANotReady))
	if pods := w.pods(); len(pods) > 1 {
		t.Error("the pod of a backup is created")
	}
	restore()
	w.wantAccess(w.namespace, "SecretReady")
	w.backsUp("BackupRunning")
}

// A tenant may change the Secrets of its namespace, and delete pods.
func TestASecretThatATenantHasChangedStopsNoCluster(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int32{"the only member": 1, "one of three": 3} {
		for _, isGone := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, of(size))
				w.bring()
				published, err := publication.ParsePublication(w.secret(w.namespace, first).Data[keyturnagent.PublicationKey])
				if err != nil {
					t.Fatal(err)
				}
				for role := range published.Trust {
					published.Trust[role] = []string{strings.Repeat("ab", 32)}
				}
				encoded, err := published.Encode()
				if err != nil {
					t.Fatal(err)
				}
				before := w.setEntry(w.namespace, first, keyturnagent.PublicationKey, encoded)
				if isGone {
					w.deletePods()
				}
				w.reconcile()
				if condition := w.condition(etcdv1beta2.ConditionPKIReady); condition.Status != metav1.ConditionTrue {
					t.Errorf("PKIReady is %+v", condition)
				}
				after, err := publication.ParsePublication(w.secret(w.namespace, first).Data[keyturnagent.PublicationKey])
				if err != nil {
					t.Fatal(err)
				}
				wanted, err := publication.ParsePublication(before)
				if err != nil || !isGone && !reflect.DeepEqual(after.Trust, wanted.Trust) {
					t.Errorf("the Secret names %v, want %v (%v)", after.Trust, wanted.Trust, err)
				}
			})
		}
	}
}
