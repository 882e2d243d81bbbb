package apitest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// forgetsFields is what becomes of a Kafka whose definition is replaced by one of Strimzi's.
func (w *world) forgetsFields() {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{"type": nil, "certManager": nil}}})
}

// The API server then shows no type and no issuer, and generateCertificateAuthority is still false.
func TestAClusterStandsWhileItsDefinitionLacksTheIssuer(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	uids, issued := w.podUIDs(), len(w.elsewhere.issued)

	w.forgetsFields()
	w.settle()
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle()

	w.wantCondition(condition.NotReady, "Secret my-cluster-ca:", "was not found")
	w.wantLeavesOf(ca)
	if now := len(w.elsewhere.issued); now != issued {
		t.Errorf("of %d certificates of the issuer %d are left", issued, now)
	}

	w.moveOutside()
	w.settle()
	w.wantReady()
	w.wantLeavesOf(ca)
	if diff := cmp.Diff(uids, w.podUIDs()); diff != "" {
		t.Errorf("nodes were restarted:\n%s", diff)
	}
}
