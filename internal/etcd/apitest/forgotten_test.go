package apitest

import (
	"testing"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	ofCluster := w.operator.Remembered()
	w.runBackup()
	w.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	w.backsUp("BackupRunning")
	w.access(w.namespace, "")
	w.grants(w.namespace)
	if w.operator.Remembered() == ofCluster {
		t.Fatal("nothing is remembered of a backup and an access")
	}

	w.delete(w.backup())
	w.delete(&keyturnv1alpha1.EtcdAccess{ObjectMeta: w.meta(application)})
	_, ofBackup := w.tryBackup()
	if _, ofAccess := w.tryAccess(w.namespace); ofBackup != nil || ofAccess != nil {
		t.Fatal(ofBackup, ofAccess)
	}
	if left := w.operator.Remembered(); left != ofCluster {
		t.Errorf("%d things are remembered without the backup and the access, want %d", left, ofCluster)
	}

	w.removeCluster()
	w.reconcile()
	if left := w.operator.Remembered(); left != 0 {
		t.Errorf("%d things are remembered of a cluster that is gone", left)
	}
}

func TestADeniedRequestIsForgottenWithItsPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	before := w.operator.Remembered()
	w.annotate(first, contract.PeerPlane.RequestAnnotation(), "aGVsbG8=")
	w.reconcile()
	if now := w.operator.Remembered(); now != before+1 {
		t.Fatalf("%d things are remembered with a denied request, want %d", now, before+1)
	}
	w.delete(w.pod(first))
	w.bring()
	if now := w.operator.Remembered(); now != before {
		t.Errorf("%d things are remembered without its pod, want %d", now, before)
	}
}
