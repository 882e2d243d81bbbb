package controller

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/operate"
)

// Metrics counts topics and what was done to them. It names no topic: there may be many thousands.
type Metrics struct {
	changes   *prometheus.CounterVec
	ready     *prometheus.Desc
	paused    *prometheus.Desc
	unmanaged *prometheus.Desc

	topics operate.Known[types.NamespacedName, outcome]
	// others is nil until what Kafka holds is known.
	others atomic.Pointer[int]
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics of one process about the topics of a Kafka cluster, to be registered once.
func NewMetrics(cluster types.NamespacedName) *Metrics {
	labels := prometheus.Labels{"namespace": cluster.Namespace, "cluster": cluster.Name}
	return &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keyturn_topic_changes_total", Help: "Changes of topics that Kafka has made, by what was done.", ConstLabels: labels,
		}, []string{"change"}),
		ready:     prometheus.NewDesc("keyturn_topic_resources", "KafkaTopics by whether they are ready.", []string{"ready"}, labels),
		paused:    prometheus.NewDesc("keyturn_topic_resources_paused", "KafkaTopics that are paused.", nil, labels),
		unmanaged: prometheus.NewDesc("keyturn_topic_unmanaged", "Topics in Kafka that are no KafkaTopics, those of Kafka's own left out; absent while that is unknown.", nil, labels),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.changes.Describe(out)
	out <- m.ready
	out <- m.paused
	out <- m.unmanaged
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.changes.Collect(out)
	ready, notReady, paused := m.summary()
	out <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, float64(ready), "true")
	out <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, float64(notReady), "false")
	out <- prometheus.MustNewConstMetric(m.paused, prometheus.GaugeValue, float64(paused))
	if others := m.others.Load(); others != nil {
		out <- prometheus.MustNewConstMetric(m.unmanaged, prometheus.GaugeValue, float64(*others))
	}
}

func (m *Metrics) summary() (ready, notReady, paused int) {
	for _, topic := range m.topics.All() {
		switch {
		case topic.isPaused:
			paused++
		case topic.isReady:
			ready++
		default:
			notReady++
		}
	}
	return ready, notReady, paused
}

func (m *Metrics) sawUnmanaged(count int) { m.others.Store(&count) }

// The changes that are counted.
const (
	created        = "created"
	recreated      = "recreated"
	deleted        = "deleted"
	partitionsMade = "partitions"
	configAltered  = "config"
)

func (m *Metrics) changed(change string) { m.changes.WithLabelValues(change).Inc() }

func (m *Metrics) saw(topic types.NamespacedName, done outcome) { m.topics.Put(topic, done) }

func (m *Metrics) forget(topic types.NamespacedName) { m.topics.Forget(topic) }
