package apitest

import (
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// exposedIn shows the private key of a new key where a request of the peer plane belongs, and returns the key.
func (w *world) exposedIn(member string) pki.PrivateKey {
	w.t.Helper()
	key := newKey(w.t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	w.annotate(member, contract.PeerPlane.RequestAnnotation(), base64.StdEncoding.EncodeToString(key.PEM()))
	return key
}

// asksWith asks for a certificate of the peer plane.
func (w *world) asksWith(member string, key pki.PrivateKey) {
	w.t.Helper()
	w.annotate(member, contract.PeerPlane.RequestAnnotation(), base64.StdEncoding.EncodeToString([]byte(newRequest(w.t, key))))
}

func (w *world) deniesExposed(member string) {
	w.t.Helper()
	w.reconcile()
	if ready := w.condition("Ready"); ready.Reason != "RequestDenied" || !strings.Contains(ready.Message, "pod "+member) || !strings.Contains(ready.Message, "PrivateKeyExposed") {
		w.t.Errorf("the condition is %s: %s", ready.Reason, ready.Message)
	}
	if !w.told("PrivateKeyExposed") {
		w.t.Error("no event says that the key was seen")
	}
}

func TestAKeyThatAMemberHasShownIsSignedForNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	good := w.pod(first).Annotations[contract.PeerPlane.RequestAnnotation()]
	key := w.exposedIn(first)
	w.reconcile()
	w.atRest()
	w.restart() // what was seen is not in the memory of a process
	w.told("")
	w.asksWith(first, key)
	w.deniesExposed(first)
	w.atRest()
	w.annotate(first, contract.PeerPlane.RequestAnnotation(), good)
	w.asksWith(second, key)
	w.deniesExposed(second)
	other := kubetest.Namespace(t, w.person, "app-")
	w.consent("*")
	w.access(other, newRequest(t, key))
	if status := w.wantAccess(other, "RequestDenied"); !strings.Contains(status.Conditions[0].Message, "PrivateKeyExposed") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	w.askAsBackup(key)
	w.backsUp("RequestDenied")
}

func TestAKeyThatAnApplicationOrABackupHasShownIsSignedForNoMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	ofAccess, ofBackup := newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}), newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	// Admission refuses a block that is named for what it is.
	w.access(w.namespace, strings.ReplaceAll(string(ofAccess.PEM()), "PRIVATE KEY", "CERTIFICATE REQUEST"))
	if status := w.wantAccess(w.namespace, "RequestDenied"); !strings.Contains(status.Conditions[0].Message, "RequestHasPrivateKey") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	w.annotate(backupPod, contract.ClientPlane.RequestAnnotation(), base64.StdEncoding.EncodeToString(ofBackup.PEM()))
	w.backsUp("RequestDenied")
	for _, key := range []pki.PrivateKey{ofAccess, ofBackup} {
		w.asksWith(first, key)
		w.deniesExposed(first)
	}
}

// A crash between the two must not leave a key that was reported and can be signed.
func TestAnExposedKeyIsRecordedBeforeItIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	key := w.exposedIn(first)
	ledger := w.ledgerObject()
	frozen := ledger.DeepCopy()
	frozen.Immutable = new(true)
	if err := w.person.Update(t.Context(), frozen); err != nil {
		t.Fatal(err)
	}
	w.told("")
	_, _ = w.try()
	if w.told("RequestHasPrivateKey") || strings.Contains(w.condition("Ready").Message, "RequestHasPrivateKey") {
		t.Error("the key is reported and not recorded")
	}
	w.delete(ledger)
	w.reconcile()
	if !w.told("RequestHasPrivateKey") {
		t.Error("the key is not reported")
	}
	w.asksWith(first, key)
	w.deniesExposed(first)
}

func (w *world) ledgerObject() *corev1.ConfigMap {
	w.t.Helper()
	stored := &corev1.ConfigMap{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.private, Name: w.namespace + ".my-cluster-issued"}, stored); err != nil {
		w.t.Fatal(err)
	}
	return stored
}
