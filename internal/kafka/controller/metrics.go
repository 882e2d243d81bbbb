package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/trust"
)

// Metrics tells a scraper, about each cluster, what its last reconcile has seen. A
// cluster that is gone has no series: nothing has to be deleted one by one.
type Metrics struct {
	mu       sync.Mutex
	clusters map[types.NamespacedName]figures
	readies  map[types.NamespacedName]readyFigure

	strimziExpiry, notAfter, anchors, pending, blocked, warnings, silent, ready *prometheus.Desc

	rotation rotationMetrics
}

// figures are the public facts about one cluster.
type figures struct {
	certificates []certificateFigure
	anchors      []anchorFigure
	pending      int
	silent       int
	blocked      map[string]int
	warnings     map[string]int
	rotations    []rotationFigure
	restartDue   map[string]time.Time
}

// Kinds of certificates, as the label of a metric names them.
const (
	figureOfAuthority = "ca"
	figureOfOperator  = "operator"
	figureOfNode      = "node"
	figureOfListener  = "listener"
)

type certificateFigure struct {
	// kind is one of those above; name tells certificates of one kind apart.
	kind, name string
	notAfter   time.Time
	// caType is the value of Strimzi's label for the two authorities.
	caType string
}

type anchorFigure struct {
	authority, fingerprint, state string
}

// NewMetrics returns an empty collector.
func NewMetrics() *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "cluster"}, labels...), nil)
	}
	return &Metrics{
		clusters: map[types.NamespacedName]figures{},
		readies:  map[types.NamespacedName]readyFigure{},
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
		for _, c := range f.certificates {
			gauge(m.notAfter, float64(c.notAfter.Unix()), cluster.Namespace, cluster.Name, c.kind, c.name)
			if c.caType != "" {
				gauge(m.strimziExpiry, float64(c.notAfter.UnixMilli()), "Kafka", cluster.Namespace, cluster.Name, c.caType, cluster.Namespace)
			}
		}
		for _, a := range f.anchors {
			gauge(m.anchors, 1, cluster.Namespace, cluster.Name, a.authority, a.fingerprint, a.state)
		}
		gauge(m.pending, float64(f.pending), cluster.Namespace, cluster.Name)
		gauge(m.silent, float64(f.silent), cluster.Namespace, cluster.Name)
		for gate, nodes := range f.blocked {
			gauge(m.blocked, float64(nodes), cluster.Namespace, cluster.Name, gate)
		}
		for reason, count := range f.warnings {
			gauge(m.warnings, float64(count), cluster.Namespace, cluster.Name, reason)
		}
		m.rotation.collect(f, func(desc *prometheus.Desc, value float64, labels ...string) {
			gauge(desc, value, append([]string{cluster.Namespace, cluster.Name}, labels...)...)
		})
	}
}

// note takes over what a reconcile has seen. A reconcile that failed keeps the certificates
// of the one before it: they go on ending.
func (m *Metrics) note(c *applied, acted outcome) {
	f := figures{pending: len(acted.pending), silent: len(c.silent), blocked: map[string]int{}, warnings: map[string]int{}}
	for _, blocker := range acted.blockers {
		f.blocked[string(blocker.Gate)]++
	}
	for _, warning := range c.warnings() {
		f.warnings[warning.reason]++
	}
	cluster := types.NamespacedName{Namespace: c.kafka.Namespace, Name: c.kafka.Name}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.operator.leaf == nil {
		before := m.clusters[cluster]
		f.certificates, f.anchors, f.rotations, f.restartDue = before.certificates, before.anchors, before.rotations, before.restartDue
	} else {
		f.certificates, f.anchors = c.certificateFigures(), c.anchorFigures()
		f.rotations, f.restartDue = c.rotationFigures(), c.restartsDue()
	}
	m.clusters[cluster] = f
}

// forget drops a cluster that is gone.
func (m *Metrics) forget(cluster types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
	delete(m.readies, cluster)
}

func (c *applied) certificateFigures() []certificateFigure {
	list := c.presentAuthorities()
	if c.operator.leaf != nil {
		list = append(list, certificateFigure{kind: figureOfOperator, name: c.kafka.Name + operatorSecretSuffix, notAfter: c.operator.leaf.NotAfter})
	}
	for _, node := range c.cluster.Nodes {
		if certificates, issued := c.nodes[node.Pod]; issued {
			list = append(list, certificateFigure{kind: figureOfNode, name: node.Pod, notAfter: certificates.leaf.NotAfter})
		}
	}
	for listener, custom := range c.custom {
		list = append(list, certificateFigure{kind: figureOfListener, name: string(listener), notAfter: custom.Chain[0].NotAfter})
	}
	return list
}

func (c *decided) anchorFigures() []anchorFigure {
	var list []anchorFigure
	for _, kind := range kinds() {
		d := c.domain(kind)
		for _, anchor := range d.Snapshot.Anchors {
			if state := d.Plan.States[anchor.ID]; state != trust.Absent {
				list = append(list, anchorFigure{authority: string(kind), fingerprint: string(anchor.ID), state: string(state)})
			}
		}
	}
	return list
}
