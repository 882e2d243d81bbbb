package controller

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/operate"
)

// Metrics counts users and their certificates. It names no user: there may be many thousands.
type Metrics struct {
	certificates *prometheus.CounterVec
	ready        *prometheus.Desc
	earliest     *prometheus.Desc
	unmanaged    *prometheus.Desc

	users operate.Known[types.NamespacedName, outcome]
	// others is nil until what Kafka holds for users is known.
	others atomic.Pointer[int]
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics of one process about the users of a Kafka cluster, to be registered once.
func NewMetrics(cluster types.NamespacedName) *Metrics {
	labels := prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name}
	return &Metrics{
		certificates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keyturn_user_certificates_issued_total", Help: "Certificates issued to users, by the reason.", ConstLabels: labels,
		}, []string{"reason"}),
		ready:     prometheus.NewDesc("keyturn_user_resources", "KafkaUsers by whether they are ready.", []string{"ready"}, labels),
		earliest:  prometheus.NewDesc("keyturn_user_certificate_expiration_timestamp_seconds", "When the first certificate of a user expires; absent without any.", nil, labels),
		unmanaged: prometheus.NewDesc("keyturn_user_unmanaged", "Users that Kafka holds ACLs, quotas or a password for and that are no KafkaUsers; absent while that is unknown.", nil, labels),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.certificates.Describe(out)
	out <- m.ready
	out <- m.earliest
	out <- m.unmanaged
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.certificates.Collect(out)
	ready, notReady, earliest := m.summary()
	out <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, float64(ready), "true")
	out <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, float64(notReady), "false")
	if !earliest.IsZero() {
		out <- prometheus.MustNewConstMetric(m.earliest, prometheus.GaugeValue, float64(earliest.Unix()))
	}
	if others := m.others.Load(); others != nil {
		out <- prometheus.MustNewConstMetric(m.unmanaged, prometheus.GaugeValue, float64(*others))
	}
}

func (m *Metrics) summary() (ready, notReady int, earliest time.Time) {
	for _, user := range m.users.All() {
		if user.isReady {
			ready++
		} else {
			notReady++
		}
		if !user.notAfter.IsZero() && (earliest.IsZero() || user.notAfter.Before(earliest)) {
			earliest = user.notAfter
		}
	}
	return ready, notReady, earliest
}

func (m *Metrics) sawUnmanaged(count int) { m.others.Store(&count) }

func (m *Metrics) issued(reason string) { m.certificates.WithLabelValues(reason).Inc() }

func (m *Metrics) saw(user types.NamespacedName, done outcome) { m.users.Put(user, done) }

func (m *Metrics) forget(user types.NamespacedName) { m.users.Forget(user) }
