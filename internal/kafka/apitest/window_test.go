package apitest

import (
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// What waits for a maintenance window and what does not. The CAs of these
// clusters outlive their leaves.

func (w *world) withWindow(window string) {
	w.t.Helper()
	kafka := kafkaResource(w.namespace)
	kafka.Spec.MaintenanceTimeWindows = []string{window}
	kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
	kafka.Spec.ClientsCa.ValidityDays = new(int32(3000))
	w.createCA(authorities.Cluster, caNamed(w.t, "corporate", 3000*authority.Day), "0")
	w.create(kafka, poolResource(w.namespace, "dual", 3, kafkav1.RoleController, kafkav1.RoleBroker))
	w.settle()
}

// nearTheEnd is a noon in the renewal period of the first leaves.
func nearTheEnd() time.Time { return start().Add(340 * authority.Day) }

func TestARenewalWaitsForTheWindowAndHappensInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withWindow(closedWindow)
	leaf := w.leafOf("my-dual-0")

	w.clock.SetTime(nearTheEnd())
	w.settle()

	if pki.FingerprintOf(w.leafOf("my-dual-0")) != pki.FingerprintOf(leaf) || len(w.faulty.podsDeleted) > 0 {
		t.Fatal("the leaf was renewed outside of the window")
	}
	if !has(w.getKafka(), condition.Ready) {
		t.Error("the cluster is not ready")
	}
	result, err := w.round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if opens := nearTheEnd().Add(11 * time.Hour); w.clock.Now().Add(result.RequeueAfter).After(opens.Add(time.Minute)) {
		t.Errorf("looked at again in %s, and not when the window opens", result.RequeueAfter)
	}

	w.clock.SetTime(nearTheEnd().Add(11 * time.Hour))
	w.settle()

	if pki.FingerprintOf(w.leafOf("my-dual-0")) == pki.FingerprintOf(leaf) {
		t.Error("the leaf was not renewed in the window")
	}
	w.wantLoaded(w.caCertificate(authorities.Cluster))
}

func TestARenewalThatIsPostponedIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withWindow(closedWindow)

	w.clock.SetTime(nearTheEnd())
	w.settle()

	w.wantCondition(condition.Warning, "my-dual-0", "window")
}

func TestARenewalThatCannotWaitForTheNextWindowDoesNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The next window is open in June, when the leaf has ended.
	w.withWindow("* * * 1 6 ?")
	leaf := w.leafOf("my-dual-0")

	w.clock.SetTime(nearTheEnd())
	w.settle()

	if pki.FingerprintOf(w.leafOf("my-dual-0")) == pki.FingerprintOf(leaf) {
		t.Error("the leaf was not renewed")
	}
	w.wantLoaded(w.caCertificate(authorities.Cluster))
}

func TestOtherNamesNeedNoWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withWindow(closedWindow)

	w.settings.ClusterDomain = "example.org"
	w.startOperator()
	w.settle()

	name := "my-dual-0.my-kafka-brokers." + w.namespace + ".svc.example.org"
	if err := w.leafOf("my-dual-0").VerifyHostname(name); err != nil {
		t.Error(err)
	}
	w.wantLoaded(w.caCertificate(authorities.Cluster))
}

func TestARestartThatHasTimeIsDoneInTheLastWindowBeforeItIsDue(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"maintenanceTimeWindows": []any{closedWindow}}})
	w.settle()

	const opens = 11 * time.Hour
	for _, days := range []int{300, 340, 356} {
		w.clock.SetTime(start().AddDate(0, 0, days).Add(opens))
		w.settle()
		w.wantRestarts(0)
	}
	w.clock.SetTime(start().AddDate(0, 0, 357).Add(opens - time.Minute))
	result, err := w.round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > time.Minute {
		t.Errorf("looked at again in %s, and not when the window opens", result.RequeueAfter)
	}
	w.wantRestarts(0)

	w.clock.SetTime(start().AddDate(0, 0, 357).Add(opens))
	w.settle()

	w.wantRestarts(1)
}
