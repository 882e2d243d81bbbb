package apitest

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Ready is said of a cluster that serves, and goes on serving by itself.

func (w *world) wantNotReady(reason string, words ...string) {
	w.t.Helper()
	w.wantReason(condition.NotReady, reason, words...)
	if has(w.getKafka(), condition.Ready) {
		w.t.Error("it is ready all the same")
	}
}

func (w *world) wantReady() {
	w.t.Helper()
	if kafka := w.getKafka(); !has(kafka, condition.Ready) || has(kafka, condition.NotReady) {
		w.t.Errorf("conditions are %+v, want Ready", kafka.Status.Conditions)
	}
}

// ended is a cluster whose nodes present what has ended, with new certificates in their
// Secrets that they load by restarts only, while nobody can be asked about the quorum.
func ended(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
	w.settle()
	w.kafka.Fail(errors.New("nobody is there"))
	w.clock.SetTime(nearTheEnd())
	w.run(5)
	w.wantReady()
	if len(w.faulty.podsDeleted) > 0 {
		t.Fatalf("restarted while nothing has ended and nobody tells of the quorum: %v", w.faulty.podsDeleted)
	}
	w.clock.SetTime(start().Add(366 * authority.Day))
	return w
}

func TestAClusterIsNotReadyWhileANodePresentsAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	w := ended(t)
	w.run(1)

	w.wantNotReady("CertificatesExpired", "my-dual-1", "replication-9091", "being loaded")
}

func TestAMistakeInTheResourceHidesNoExpiredCertificate(t *testing.T) {
	t.Parallel()
	w := ended(t)
	w.patchKafka(map[string]any{"version": "3.9.0"})
	w.run(1)

	w.wantNotReady("CertificatesExpired", "3.9.0", "my-dual-1", "replication-9091", "being loaded")
}

func TestWhatHasEndedIsNamedWhileTheResourceIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"strimzi.io/pause-reconciliation": asked})
	w.run(2)
	w.clock.SetTime(start().Add(366 * authority.Day))

	w.run(3)

	w.wantReason("CertificatesValid", "Expired", "my-dual-0", "replication-9091")
}

func TestNodesThatPresentWhatHasEndedAreRestartedAlthoughNobodyTellsOfTheQuorum(t *testing.T) {
	t.Parallel()
	w := ended(t)
	before := w.podUIDs()
	w.run(20)

	for pod, uid := range w.podUIDs() {
		if before[pod] == uid {
			t.Errorf("%s waits for a quorum that nobody can ask: %s", pod, w.status(t.Context()))
		}
	}

	w.kafka.Fail(nil)
	w.settle()

	w.wantReady()
}

func TestAClusterIsNotReadyOnceAListenersOwnCertificateHasExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.customListener("custom")
	w.wantReady()
	w.nobodyReads()
	leaf := w.first(w.secret("custom").Data["tls.crt"])
	w.clock.SetTime(leaf.NotAfter.Add(time.Hour))
	w.settle()

	w.wantNotReady("CertificatesExpired", "tls-9093", "Secret custom")
}

func TestAClusterIsNotReadyWhileItsRotationCannotGoOnByItself(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.silent["my-dual-1"] = true
	w.replace(authorities.Cluster)
	w.run(8)
	w.wantReady()
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.run(3)

	w.wantNotReady("RotationBlocked", "cluster-ca", "my-dual-1")

	delete(w.silent, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
	w.wantReady()
}

func TestAClusterIsNotReadyWhileAKubeletNeverMountsWhatItsRotationWaitsFor(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.clock.SetTime(w.clock.Now().Add(time.Hour)) // everybody has been as he is for long
	w.lag["my-dual-1"] = stopped
	w.replace(authorities.Cluster)
	w.run(8)
	w.clock.SetTime(w.clock.Now().Add(4 * time.Minute))
	w.run(3)
	w.wantReady()
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.run(3)

	w.wantNotReady("RotationBlocked", "cluster-ca", "waiting for my-dual-1", "the kubelet there")

	delete(w.lag, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
	w.wantReady()
}
