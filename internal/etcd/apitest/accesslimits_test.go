package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestASecretThatCannotBeWrittenGetsNoCertificates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.grants(w.namespace)
	immutable := client.RawPatch(types.MergePatchType, []byte(`{"immutable": true}`))
	if err := w.person.Patch(t.Context(), &corev1.Secret{ObjectMeta: w.meta(application)}, immutable); err != nil {
		t.Fatal(err)
	}
	before := len(w.ledger())
	w.clock.SetTime(noon().Add(481 * time.Hour))
	for range 3 {
		status := w.wantAccess(w.namespace, "SecretNotWritable")
		if !strings.Contains(status.Conditions[0].Message, "immutable") {
			t.Errorf("the message does not say why: %s", status.Conditions[0].Message)
		}
	}
	if more := len(w.ledger()) - before; more > 0 {
		t.Errorf("%d certificates were issued and none was delivered", more)
	}
	if err := w.person.Delete(t.Context(), &corev1.Secret{ObjectMeta: w.meta(application)}); err != nil {
		t.Fatal(err)
	}
	w.wantAccess(w.namespace, "SecretReady")
}

// fillLedger adds so many certificates of each of some holders, one a minute.
func (w *world) fillLedger(number int, plane contract.Plane, holders ...types.UID) {
	w.t.Helper()
	stored := w.ledgerObject()
	for _, holder := range holders {
		for i := range number {
			at := noon().Add(-time.Hour - time.Duration(i)*time.Minute)
			text, err := json.Marshal(enroll.Issued{
				SPKI: fmt.Sprintf("%064x", len(stored.Data)), Plane: plane, CA: strings.Repeat("a", 64), PodUID: string(holder),
				IssuedAt: at, NotAfter: at.Add(720 * time.Hour),
			})
			if err != nil {
				w.t.Fatal(err)
			}
			stored.Data[fmt.Sprintf("%032x", 0xabc0000+len(stored.Data))] = string(text)
		}
	}
	if err := w.person.Update(w.t.Context(), stored); err != nil {
		w.t.Fatal(err)
	}
}

func TestWhatIsGoneTakesNoRoomInTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.fillLedger(1000, contract.ClientPlane, "gone-1", "gone-2")
	w.access(w.namespace, "")
	w.wantAccess(w.namespace, "SecretReady")
	certificates := 0
	for _, issued := range w.ledger() {
		if issued.CA != "" {
			certificates++
		}
	}
	if entries := len(w.ledger()); certificates != 3 || entries != 3+enroll.MaxFormer {
		t.Errorf("it has %d certificates among %d entries, want those of the member and the application", certificates, entries)
	}
}

func TestAMemberThatIsCreatedAgainIsSignedInAnyLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.fillLedger(1000, contract.PeerPlane, w.pod(first).UID)
	w.fillLedger(994, contract.ClientPlane, w.pod(first).UID)
	w.delete(w.pod(second))
	w.bring()
	w.allRecorded()
	if entries := len(w.ledger()); entries > enroll.MaxFormer+4*enroll.MaxPerHolder {
		t.Errorf("the ledger has %d entries", entries)
	}
}

func TestApplicationsOfOneNamespaceLeaveRoomInTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	var holders []types.UID
	for i := range (enroll.MaxClients - enroll.ForFew) / enroll.MaxPerHolder {
		access := &keyturnv1alpha1.EtcdAccess{
			ObjectMeta: w.meta(fmt.Sprintf("app-%d", i)), Spec: keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: cluster}},
		}
		w.create(access)
		holders = append(holders, access.UID)
	}
	w.fillLedger(enroll.MaxPerHolder, contract.ClientPlane, holders...)
	w.access(w.namespace, "")
	status := w.wantAccess(w.namespace, "LedgerFull")
	if message := status.Conditions[0].Message; !strings.Contains(message, "Delete EtcdAccesses") || !strings.Contains(message, "namespace "+w.namespace+" has 1000") {
		t.Errorf("the message is %s", message)
	}
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	w.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	w.backsUp("LedgerFull")
	other := kubetest.Namespace(t, w.person, "app-")
	w.consent("*")
	w.access(other, "")
	w.wantAccess(other, "SecretReady")
	w.delete(w.pod(second))
	w.bring()
}

func TestAKeyThatAMemberOrAnotherApplicationHasIsNotSignedForAnApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.reconcile()
	w.reconcile()
	a := &agent{address: "10.0.0.1", keys: map[contract.Plane]pki.PrivateKey{}}
	for _, plane := range contract.Planes() { // the pod has no address yet: nothing is signed
		a.keys[plane] = newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
		w.annotate(first, plane.RequestAnnotation(), a.request(t, plane))
	}
	copied, err := base64.StdEncoding.DecodeString(w.pod(first).Annotations[contract.PeerPlane.RequestAnnotation()])
	if err != nil {
		t.Fatal(err)
	}
	w.agents[w.pod(first).UID] = a
	w.access(w.namespace, string(copied))
	status := w.wantAccess(w.namespace, "RequestDenied")
	if !strings.Contains(status.Conditions[0].Message, "KeyOfAnotherPod") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	w.setAddress(w.pod(first), a.address)
	w.bring()

	own := newRequest(t, newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	one, other := kubetest.Namespace(t, w.person, "app-"), kubetest.Namespace(t, w.person, "app-")
	w.consent("*")
	w.access(one, own)
	w.wantAccess(one, "SecretReady")
	w.delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.private, Name: w.namespace + ".my-cluster-issued"}})
	w.access(other, own)
	w.wantAccess(other, "RequestDenied")
	w.wantAccess(one, "SecretReady")
}

func TestAReferenceThatIsNoNameIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	access := &keyturnv1alpha1.EtcdAccess{
		ObjectMeta: w.meta(application), Spec: keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: "a/../b", Namespace: "../secrets"}},
	}
	w.create(access)
	w.wantAccess(w.namespace, "NamespaceNotAllowed")
}

func TestAnAccessThatWaitsForALostCAIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.grants(w.namespace)
	w.delete(w.secret(w.private, w.namespace+".my-cluster-client-ca"))
	w.clock.SetTime(noon().Add(481 * time.Hour))
	result, err := w.operator.ReconcileAccess(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: application}})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("it is looked at again after %s, %v", result.RequeueAfter, err)
	}
	w.wantAccess(w.namespace, "CANotReady")
}

// Any tenant can create EtcdAccesses, and each watch costs the operator memory.
func TestNothingIsWatchedForAnAccessThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, of(1)), newWorld(t, of(1))
	later := func(name string, to keyturnv1alpha1.EtcdClusterReference) {
		w.create(&keyturnv1alpha1.EtcdAccess{ObjectMeta: w.meta(name), Spec: keyturnv1alpha1.EtcdAccessSpec{Cluster: to}})
	}
	later("to-another-namespace", keyturnv1alpha1.EtcdClusterReference{Name: cluster, Namespace: other.namespace})
	later("to-none", keyturnv1alpha1.EtcdClusterReference{Name: "later"})
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta("without-tls"), Spec: insecure(1)})
	later("without-tls", keyturnv1alpha1.EtcdClusterReference{Name: "without-tls"})
	w.access(w.namespace, "")
	w.grantsAccess = true
	w.clock.SetTime(time.Now())
	counted := &writes{}
	w.runIn(apiServer, counted)
	hasReason := func(name, reason string) func() bool {
		return func() bool {
			access := &keyturnv1alpha1.EtcdAccess{}
			if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, access); err != nil {
				t.Fatal(err)
			}
			return len(access.Status.Conditions) > 0 && access.Status.Conditions[0].Reason == reason
		}
	}
	watched := func() (names []string) {
		counted.watched.Range(func(name, _ any) bool {
			names = append(names, strings.TrimPrefix(fmt.Sprint(name), "metadata.name="))
			return true
		})
		slices.Sort(names)
		return names
	}
	w.eventually("one is not allowed", hasReason("to-another-namespace", "NamespaceNotAllowed"))
	w.eventually("one has no cluster", hasReason("to-none", "NamespaceNotAllowed"))
	w.eventually("one is to a cluster without CAs", hasReason("without-tls", "NotSupported"))
	w.eventually("one has its Secret", hasReason(application, "SecretReady"))
	ca := func(cluster string) string { return w.namespace + "." + cluster + "-client-ca-cert" }
	w.eventually("its objects are watched", func() bool { return len(watched()) >= 2 })
	if want := []string{ca(cluster), application}; !slices.Equal(watched(), want) {
		t.Errorf("watched are %v, want %v", watched(), want)
	}
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta("later"), Spec: of(1)})
	w.eventually("one has its Secret when there is a cluster", hasReason("to-none", "SecretReady"))
}
