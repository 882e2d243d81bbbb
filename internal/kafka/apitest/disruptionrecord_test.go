package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// A record of disruptions that cannot be read shuts the gates of restarts, and nothing
// else: certificates are renewed, and a key is replaced.
func TestARecordOfDisruptionsThatCannotBeReadHoldsUpRestartsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	before := w.leafOf("my-dual-0")
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "my-disruption", Namespace: w.namespace, Labels: map[string]string{"strimzi.io/cluster": clusterName},
	}, Data: map[string]string{"disruption.json": "{rubbish"}}
	w.create(record)
	w.clock.SetTime(before.NotAfter.Add(-10 * authority.Day))
	w.run(20)
	w.readSecrets(t.Context())
	if w.leafOf("my-dual-0").Equal(before) {
		t.Error("a leaf that expires in 10 days is not renewed")
	}
	w.wantCondition(condition.NotReady, "my-disruption", "delete it")

	w.replace(authorities.Cluster)
	w.run(40)
	w.wantGeneration(authorities.Cluster, "1")
	w.wantRestarts(0)

	w.delete(&corev1.ConfigMap{}, "my-disruption")
	w.settle()
	w.wantReady()
}
