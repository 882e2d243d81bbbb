package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandler serves the metrics of one member.
func metricsHandler(o *observer) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(o))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector shows a member under the names that the agents of other servers use, too.
type collector struct {
	observer         *observer
	expiry, revision *prometheus.Desc
}

func newCollector(o *observer) *collector {
	return &collector{
		observer: o,
		expiry: prometheus.NewDesc("keyturn_agent_certificate_expiry_timestamp_seconds",
			"Unix time at which the first certificate that the listener presents expires.", []string{"listener"}, nil),
		revision: prometheus.NewDesc("keyturn_agent_publication_revision",
			"Revision of the publication whose stores the server has loaded, and of the mounted one.", []string{"stage"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	report := c.observer.TLS()
	out <- prometheus.MustNewConstMetric(c.revision, prometheus.GaugeValue, float64(report.Revision), "loaded")
	out <- prometheus.MustNewConstMetric(c.revision, prometheus.GaugeValue, float64(c.observer.mountedRevision()), "mounted")
	for role, loaded := range report.Roles {
		out <- prometheus.MustNewConstMetric(c.expiry, prometheus.GaugeValue, float64(loaded.NotAfter.Unix()), string(role))
	}
}
