package apitest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/keyturn/keyturn/internal/authority"
)

func TestMetricsTellWhenCertificatesEndAndGoWithTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()

	// Two authorities, the operator, three nodes.
	if n := testutil.CollectAndCount(w.metrics, "keyturn_certificate_not_after_timestamp_seconds"); n != 6 {
		t.Errorf("%d certificates, want 6", n)
	}
	if n := testutil.CollectAndCount(w.metrics, "strimzi_certificate_expiration_timestamp_ms"); n != 2 {
		t.Errorf("%d authorities in Strimzi's form, want 2", n)
	}
	want := `# HELP keyturn_rollout_pending_nodes Nodes that are still to be restarted or removed.
# TYPE keyturn_rollout_pending_nodes gauge
keyturn_rollout_pending_nodes{cluster="my",namespace="` + w.namespace + `"} 0
# HELP keyturn_ready 1 for a Kafka that is Ready, 0 for one that is not, with the reason.
# TYPE keyturn_ready gauge
keyturn_ready{cluster="my",namespace="` + w.namespace + `",reason=""} 1
`
	if err := testutil.CollectAndCompare(w.metrics, strings.NewReader(want), "keyturn_rollout_pending_nodes", "keyturn_ready"); err != nil {
		t.Error(err)
	}
	states := testutil.CollectAndCount(w.metrics, "keyturn_trust_anchor_state")
	if anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: w.secret("my-cluster-ca-trusted-certs").Data}); states != len(anchors)+1 {
		t.Errorf("%d anchors, want %d of the cluster CA and one of the clients CA", states, len(anchors))
	}

	w.delete(w.getKafka(), clusterName)
	if _, err := w.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(w.metrics); n != 0 {
		t.Errorf("%d series of a cluster that is gone", n)
	}
}
