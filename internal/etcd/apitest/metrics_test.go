package apitest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

const (
	caMetric   = "keyturn_etcd_ca_expiry_timestamp_seconds"
	leafMetric = "keyturn_etcd_certificate_expiry_timestamp_seconds"
)

// expect compares when CAs and certificates of both planes expire.
func (w *world) expect(ca, leaf time.Time) {
	w.t.Helper()
	var want strings.Builder
	for _, metric := range []struct {
		name, help string
		at         time.Time
	}{
		{caMetric, "Unix time at which the first CA that members of an EtcdCluster trust on a port expires.", ca},
		{leafMetric, "Unix time at which the first certificate of members of an EtcdCluster for a port expires.", leaf},
	} {
		fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %s gauge\n", metric.name, metric.help, metric.name)
		for _, plane := range []string{"client", "peer"} {
			fmt.Fprintf(&want, "%s{etcdcluster=%q,namespace=%q,plane=%q} %d\n", metric.name, cluster, w.namespace, plane, metric.at.Unix())
		}
	}
	if err := testutil.CollectAndCompare(w.metrics, strings.NewReader(want.String()), caMetric, leafMetric); err != nil {
		w.t.Error(err)
	}
}

// countsCAs compares how many CAs members trust in each plane.
func (w *world) countsCAs(clients, peers int) {
	w.t.Helper()
	const metric = "keyturn_etcd_trusted_cas"
	want := fmt.Sprintf("# HELP %s CA certificates that members of an EtcdCluster trust on a port: one, or more while the CA is renewed or replaced.\n# TYPE %s gauge\n", metric, metric)
	for plane, count := range map[string]int{"client": clients, "peer": peers} {
		want += fmt.Sprintf("%s{etcdcluster=%q,namespace=%q,plane=%q} %d\n", metric, cluster, w.namespace, plane, count)
	}
	if err := testutil.CollectAndCompare(w.metrics, strings.NewReader(want), metric); err != nil {
		w.t.Error(err)
	}
}

func TestMetricsSayWhenCertificatesAndCAsExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	w.expect(noon().Add(43800*time.Hour), noon().Add(720*time.Hour))
	w.countsCAs(1, 1)
	w.clock.SetTime(noon().Add(490 * time.Hour))
	w.bring()
	w.expect(noon().Add(43800*time.Hour), noon().Add((490+720)*time.Hour))
	w.delete(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)})
	for range 5 {
		w.reconcile()
	}
	if count := testutil.CollectAndCount(w.metrics, caMetric, leafMetric); count > 0 {
		t.Errorf("%d metrics of a deleted cluster are left", count)
	}
}

func TestMetricsSayWhenCertificatesFromSecretsExpire(t *testing.T) {
	t.Parallel()
	w, own := newStatic(t, 1)
	w.bring()
	w.expect(own.peers.Certificate().NotAfter, noon().Add(24*time.Hour))
}
