package apitest

import (
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// runBackup creates the pod of a backup, which has no certificate yet.
func (w *world) runBackup() {
	w.t.Helper()
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
}

// A backup reads data as a client does. With a certificate of peers it could become a member.
func TestABackupThatAsksAsAPeerGetsNoCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.runBackup()
	key := newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	asking := &agent{keys: map[contract.Plane]pki.PrivateKey{contract.PeerPlane: key}}
	w.annotate(backupPod, contract.PeerPlane.RequestAnnotation(), asking.request(t, contract.PeerPlane))
	w.annotate(backupPod, contract.RequestAnnotation, asking.request(t, contract.PeerPlane))

	w.backsUp("BackupRunning")
	w.reconcile()

	annotations := w.pod(backupPod).Annotations
	if annotations[contract.PeerPlane.CertificateAnnotation()] != "" || annotations[contract.CertificateAnnotation] != "" {
		t.Error("the backup has a certificate of peers")
	}
	for serial, issued := range w.ledger() {
		if issued.PodUID == string(w.pod(backupPod).UID) && issued.Plane == contract.PeerPlane {
			t.Errorf("certificate %s of peers was issued for the backup", serial)
		}
	}
}

func TestTheCertificateOfABackupIsAcceptedByTheClientPortOfItsClusterAlone(t *testing.T) {
	t.Parallel()
	own := newWorld(t, of(1))
	own.bring()
	other := newWorldIn(t, kubetest.Namespace(t, own.person, "etcd-"), own.private, own.person, of(1))
	other.bring()
	own.runBackup()
	own.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	own.backsUp("BackupRunning")
	chain := []*x509.Certificate{
		own.backupLeaf(), own.certificate(own.namespace + ".my-cluster-client-ca-cert"), own.certificate("keyturn-etcd-operator-client-ca-cert"),
	}

	for presented := 1; presented <= len(chain); presented++ {
		for _, w := range []*world{own, other} {
			for _, plane := range contract.Planes() {
				anchors, err := pki.ParseBundle(w.secret(w.namespace, first).Data[plane.AnchorsKey()])
				if err != nil {
					t.Fatal(err)
				}
				err = pki.Verify(chain[:presented], anchors, w.clock.Now(), pki.ClientAuth)
				if isAccepted, is := err == nil, w == own && plane == contract.ClientPlane; isAccepted != is {
					t.Errorf("with %d certificates presented, the %s port in %s says %v", presented, plane, w.namespace, err)
				}
			}
		}
	}
}
