package apitest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kube"
)

// A rotation that waits for one node, which only a person can help.

// requeued is how soon the operator looks again.
func (w *world) requeued() time.Duration {
	w.t.Helper()
	result, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (w *world) wantPatience() {
	w.t.Helper()
	if again := w.requeued(); again != 0 && again < kube.Unwatched {
		w.t.Errorf("the operator looks again after %s, want %s or more: %s", again, kube.Unwatched, w.status(w.t.Context()))
	}
}

func TestARotationIsBlockedByANodeWhoseSecretIsLostWithTheKeyOfItsCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stores = authority.WithoutStores
	w.dualRole(3)
	w.settle()
	w.classic()
	lost := w.secret("my-dual-0")
	w.delete(&corev1.Secret{}, authorities.Cluster.KeySecret(clusterName))
	w.delete(&corev1.Secret{}, "my-dual-0")
	w.run(waitingRounds)
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.run(3)

	w.wantNotReady("RotationBlocked", "cluster-ca", "waiting for my-dual-0", "since ", "restore the Secret of my-dual-0")
	for _, trust := range []condition.Type{"ClusterCATrust", "ClientsCATrust"} {
		w.wantReason(trust, "Blocked", "waiting for my-dual-0", "restore the Secret of my-dual-0")
	}
	w.wantPatience()

	lost.ResourceVersion, lost.UID = "", ""
	w.create(lost)
	w.settle()

	w.wantReady()
	if !w.presents(3, nextV)() {
		t.Errorf("not all present %s: %v", nextV, w.roles())
	}
}

func TestARotationIsBlockedByALeavingNodeThatDoesNotTerminate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.pin()
	w.lag["my-extra-4"] = stopped
	w.scale("extra", 1)
	w.run(5)
	var pod corev1.Pod
	w.get("my-extra-4", &pod)
	if pod.DeletionTimestamp == nil {
		t.Fatal("my-extra-4 is not being removed; the case is not met")
	}
	w.replace(authorities.Cluster)
	w.run(waitingRounds)
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.run(3)

	w.wantNotReady("RotationBlocked", "cluster-ca", "waiting for my-extra-4", "since ", "check why pod my-extra-4 does not terminate")
	w.wantReason("ClusterCATrust", "Blocked", "waiting for my-extra-4")
	w.wantPatience()

	delete(w.lag, "my-extra-4")
	w.settle()

	w.wantReady()
	if !strings.Contains(strings.Join(w.faulty.podsDeleted, " "), "my-extra-4") {
		t.Errorf("deleted: %v", w.faulty.podsDeleted)
	}
}
