package controller

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/operate"
)

// Metrics count KafkaAccesses and the writes of their Secrets.
type Metrics struct {
	ready  operate.Known[metered, bool]
	writes atomic.Int64

	accesses, secretWrites *prometheus.Desc
}

// metered is a KafkaAccess of one form.
type metered struct {
	form schema.GroupVersion
	name types.NamespacedName
}

// NewMetrics returns an empty collector.
func NewMetrics() *Metrics {
	return &Metrics{
		accesses: prometheus.NewDesc("keyturn_access_resources",
			"How many KafkaAccesses are ready, and how many are not.", []string{"ready"}, nil),
		secretWrites: prometheus.NewDesc("keyturn_access_secret_writes_total",
			"How many times the Secret of a KafkaAccess was created or changed.", nil, nil),
	}
}

// Describe describes all metrics.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.accesses
	descs <- m.secretWrites
}

// Collect reports what the last reconcile of each KafkaAccess came to.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	counts := map[bool]int{}
	for _, ready := range m.ready.All() {
		counts[ready]++
	}
	for _, ready := range []bool{true, false} {
		metrics <- prometheus.MustNewConstMetric(m.accesses, prometheus.GaugeValue, float64(counts[ready]), strconv.FormatBool(ready))
	}
	metrics <- prometheus.MustNewConstMetric(m.secretWrites, prometheus.CounterValue, float64(m.writes.Load()))
}

func (m *Metrics) reconciled(form schema.GroupVersion, access types.NamespacedName, ready bool) {
	m.ready.Put(metered{form, access}, ready)
}

func (m *Metrics) forget(form schema.GroupVersion, access types.NamespacedName) {
	m.ready.Forget(metered{form, access})
}

func (m *Metrics) wrote() { m.writes.Add(1) }
