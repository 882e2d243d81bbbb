package apitest

import (
	"bytes"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// pkiWrites is more than the two CAs and a cluster of one member take.
const pkiWrites = 55

func TestWhereTheOperatorCrashesWithAnOutsidePKINoKeyIsLost(t *testing.T) {
	t.Parallel()
	for _, crashAt := range crashes(1, 3, pkiWrites) {
		t.Run(strconv.Itoa(crashAt), func(t *testing.T) {
			t.Parallel()
			w := newPKIWorld(t, of(1))
			w.goOutside()
			w.writer.CrashAt = crashAt
			crashed := w.signedUntilItCrashes()
			if crashed && crashAt == pkiWrites {
				t.Errorf("%d writes are not more than it takes", pkiWrites)
			}
			before := w.ownKeys()
			w.restart()
			for range 3 {
				w.reconcilePKI()
				w.signWhatIsAsked()
			}
			w.bring()
			w.verified(w.world)
			for name, key := range w.ownKeys() {
				if old, had := before[name]; had && !bytes.Equal(old, key) {
					t.Errorf("the key in Secret %s is another one", name)
				}
			}
			w.reconcilePKI()
			w.atRest()
		})
	}
}

// signedUntilItCrashes reconciles both kinds and answers requests, and reports whether the operator has crashed.
func (w *pkiWorld) signedUntilItCrashes() bool {
	w.t.Helper()
	for range 20 {
		if _, err := w.operator.ReconcilePKI(w.t.Context(), ctrl.Request{}); err != nil {
			return true
		}
		w.signWhatIsAsked()
		if _, err := w.try(); err != nil {
			return true
		}
		w.play()
	}
	return false
}

// signWhatIsAsked answers one request in each of the two ways.
func (w *pkiWorld) signWhatIsAsked() {
	w.t.Helper()
	if request := w.requestOf(contract.PeerPlane); len(request) > 0 && w.pki().Spec.Certificates.Peer == "" {
		w.give(contract.PeerPlane, w.sign(request))
	}
	if object := w.objects()[nameOf(contract.ClientPlane)]; object != nil && len(object.Status.Certificate) == 0 {
		w.answer(contract.ClientPlane)
	}
}

func (w *pkiWorld) ownKeys() map[string][]byte {
	w.t.Helper()
	keys := map[string][]byte{}
	for _, plane := range contract.Planes() {
		secret := &corev1.Secret{}
		err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.private, Name: nameOf(plane)}, secret)
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		if err == nil {
			keys[secret.Name] = secret.Data["ca.key"]
		}
	}
	return keys
}
