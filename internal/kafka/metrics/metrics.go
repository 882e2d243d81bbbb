package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics tells a scraper, about each cluster, what its last reconcile has seen. A
// cluster that is gone has no series: nothing has to be deleted one by one.
type Metrics struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]Figures
	readies  map[types.NamespacedName]readiness

	strimziExpiry, notAfter, anchors, pending, blocked, warnings, silent, ready *prometheus.Desc

	rotation rotationMetrics
}

// Figures are the public facts about one cluster.
type Figures struct {
	// Pending counts the nodes that are still to be restarted or removed, and Silent the ready pods whose agents do not answer.
	Pending, Silent int
	// Blocked counts nodes by the gates that keep them from being restarted, and Warnings conditions by their reasons.
	Blocked, Warnings map[string]int
	// Trust is nil while it is not known.
	Trust *Trust
}

// Trust is what is known of the certificates of a cluster.
type Trust struct {
	Certificates []Certificate
	Anchors      []Anchor
	Rotations    []Rotation
	// RestartDue is by when nodes have to be restarted, by name.
	RestartDue map[string]time.Time
}

// Kinds of certificates, as the label of a metric names them.
const (
	OfAuthority = "ca"
	OfOperator  = "operator"
	OfNode      = "node"
	OfListener  = "listener"
)

// Certificate is when a certificate of a cluster expires.
type Certificate struct {
	// Kind is one of those above; Name tells certificates of one kind apart.
	Kind, Name string
	NotAfter   time.Time
	// CAType is the value of Strimzi's label for the two CAs; empty for other certificates.
	CAType string
}

// Anchor is the state that a trusted CA certificate is in.
type Anchor struct {
	Authority, Fingerprint, State string
}

// New returns an empty collector.
func New() *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "cluster"}, labels...), nil)
	}
	return &Metrics{
		clusters: map[types.NamespacedName]Figures{},
		readies:  map[types.NamespacedName]readiness{},
		strimziExpiry: prometheus.NewDesc("strimzi_certificate_expiration_timestamp_ms",
			"When the certificate of a CA expires, in milliseconds since 1970, in Strimzi's form.",
			[]string{"kind", "namespace", "cluster", "type", "resource_namespace"}, nil),
		notAfter: desc("keyturn_certificate_not_after_timestamp_seconds",
			"When a certificate expires, in seconds since 1970.", "kind", "name"),
		anchors: desc("keyturn_trust_anchor_state",
			"1 for the state that an anchor is in.", "authority", "fingerprint", "state"),
		pending: desc("keyturn_rollout_pending_nodes",
			"Nodes that are still to be restarted or removed."),
		blocked: desc("keyturn_rollout_blocked_nodes",
			"Nodes that a gate keeps from being restarted or removed.", "gate"),
		warnings: desc("keyturn_warnings",
			"Warning conditions of the Kafka.", "reason"),
		silent: desc("keyturn_agents_silent",
			"Ready pods whose agents do not answer the operator."),
		ready: desc("keyturn_ready",
			"1 for a Kafka that is Ready, 0 for one that is not, with the reason.", "reason"),
		rotation: newRotationMetrics(desc),
	}
}

// Describe tells all metrics.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.strimziExpiry, m.notAfter, m.anchors, m.pending, m.blocked, m.warnings, m.silent, m.ready} {
		descs <- desc
	}
	m.rotation.describe(descs)
}

// Collect tells what the last reconcile over each cluster has seen.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for cluster, f := range m.readies {
		gauge(m.ready, f.value, cluster.Namespace, cluster.Name, f.reason)
	}
	for cluster, f := range m.clusters {
		m.collectTrust(cluster, f.Trust, gauge)
		gauge(m.pending, float64(f.Pending), cluster.Namespace, cluster.Name)
		gauge(m.silent, float64(f.Silent), cluster.Namespace, cluster.Name)
		for gate, nodes := range f.Blocked {
			gauge(m.blocked, float64(nodes), cluster.Namespace, cluster.Name, gate)
		}
		for reason, count := range f.Warnings {
			gauge(m.warnings, float64(count), cluster.Namespace, cluster.Name, reason)
		}
	}
}

func (m *Metrics) collectTrust(cluster types.NamespacedName, t *Trust, gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if t == nil {
		return
	}
	for _, c := range t.Certificates {
		gauge(m.notAfter, float64(c.NotAfter.Unix()), cluster.Namespace, cluster.Name, c.Kind, c.Name)
		if c.CAType != "" {
			gauge(m.strimziExpiry, float64(c.NotAfter.UnixMilli()), "Kafka", cluster.Namespace, cluster.Name, c.CAType, cluster.Namespace)
		}
	}
	for _, a := range t.Anchors {
		gauge(m.anchors, 1, cluster.Namespace, cluster.Name, a.Authority, a.Fingerprint, a.State)
	}
	m.rotation.collect(t, func(desc *prometheus.Desc, value float64, labels ...string) {
		gauge(desc, value, append([]string{cluster.Namespace, cluster.Name}, labels...)...)
	})
}

// Note takes over what a reconcile has seen. While the trust is not known, that of before stays: certificates go on ending.
func (m *Metrics) Note(cluster types.NamespacedName, f Figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Trust == nil {
		f.Trust = m.clusters[cluster].Trust
	}
	m.clusters[cluster] = f
}

// Len is of how many clusters something is told.
func (m *Metrics) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clusters) + len(m.readies)
}

// Forget drops a cluster that is gone.
func (m *Metrics) Forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
	delete(m.readies, cluster)
}
