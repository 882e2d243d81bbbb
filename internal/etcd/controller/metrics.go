package controller

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// Labels that name a cluster or a backup.
const (
	namespaceLabel = "namespace"
	clusterLabel   = "etcdcluster"
	backupLabel    = "etcdbackup"
	planeLabel     = "plane"
)

// Metrics counts members and their certificates.
type Metrics struct {
	members *prometheus.GaugeVec
	cas     *prometheus.GaugeVec
	caEnds  *prometheus.GaugeVec
	ends    *prometheus.GaugeVec
	// loadedEnds and silent are what agents of members report.
	loadedEnds, silent *prometheus.GaugeVec
	certificates       prometheus.Counter
	denials            *prometheus.CounterVec
	attestation        *prometheus.GaugeVec
	alarms             *prometheus.GaugeVec
	// sizes, inUse and quotas are those of databases.
	sizes, inUse, quotas *prometheus.GaugeVec
	// backups and what follows are those of EtcdBackups.
	backups                    *prometheus.CounterVec
	lastBackup, backupInterval *prometheus.GaugeVec
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics for one process, to be registered once.
func NewMetrics() *Metrics {
	return &Metrics{
		members: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_members", Help: "Members of an EtcdCluster by whether they are ready.",
		}, []string{namespaceLabel, clusterLabel, "ready"}),
		cas: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_trusted_cas", Help: "CA certificates that members of an EtcdCluster trust on a port: one, or more while the CA is renewed or replaced.",
		}, []string{namespaceLabel, clusterLabel, planeLabel}),
		caEnds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_ca_expiry_timestamp_seconds", Help: "Unix time at which the first CA that members of an EtcdCluster trust on a port expires.",
		}, []string{namespaceLabel, clusterLabel, planeLabel}),
		ends: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_certificate_expiry_timestamp_seconds", Help: "Unix time at which the first certificate of members of an EtcdCluster for a port expires.",
		}, []string{namespaceLabel, clusterLabel, planeLabel}),
		loadedEnds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_loaded_certificate_expiry_timestamp_seconds", Help: "Unix time at which the first certificate expires that members of an EtcdCluster present on a port, as their agents report it.",
		}, []string{namespaceLabel, clusterLabel, planeLabel}),
		silent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_silent_agents", Help: "Members of an EtcdCluster whose agents do not answer the operator.",
		}, []string{namespaceLabel, clusterLabel}),
		certificates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "keyturn_etcd_certificates_issued_total", Help: "Certificates issued to members.",
		}),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keyturn_etcd_requests_denied_total", Help: "Requests of members that were denied, by the cause.",
		}, []string{"cause"}),
		attestation: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_attestation_enforced", Help: "Whether the last test found the admission policy for pods of members in force, by what it found.",
		}, []string{"reason"}),
		alarms: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_alarm", Help: "Alarms of an EtcdCluster, which are 1 until they are disarmed, by the member that raised them.",
		}, []string{namespaceLabel, clusterLabel, "member", "alarm"}),
		sizes:  database("keyturn_etcd_database_size_bytes", "Size of the database of a member of an EtcdCluster, which is limited by its quota."),
		inUse:  database("keyturn_etcd_database_in_use_bytes", "What is in use of the database of a member of an EtcdCluster."),
		quotas: database("keyturn_etcd_database_quota_bytes", "Quota of the size of the database of a member of an EtcdCluster."),
		backups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "keyturn_etcd_backup_attempts_total", Help: "Backups of an EtcdBackup that have ended, by their result: BackupSucceeded, or why they failed.",
		}, []string{namespaceLabel, backupLabel, "result"}),
		lastBackup: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_backup_last_success_timestamp_seconds", Help: "When the last backup of an EtcdBackup was verified; 0 if none was.",
		}, []string{namespaceLabel, backupLabel}),
		backupInterval: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "keyturn_etcd_backup_interval_seconds", Help: "Time from one backup of an EtcdBackup to the next; absent for one that makes a single backup.",
		}, []string{namespaceLabel, backupLabel}),
	}
}

// database is a figure of the database of each member.
func database(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
		[]string{namespaceLabel, clusterLabel, "member"})
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, collector := range m.all() {
		collector.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, collector := range m.all() {
		collector.Collect(out)
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.members, m.cas, m.caEnds, m.ends, m.loadedEnds, m.silent, m.certificates, m.denials, m.attestation, m.alarms, m.sizes, m.inUse, m.quotas, m.backups, m.lastBackup, m.backupInterval}
}

func (m *Metrics) issued() { m.certificates.Inc() }

func (m *Metrics) denied(cause string) { m.denials.WithLabelValues(cause).Inc() }

// tested sets the result of the last test of the admission policy.
func (m *Metrics) tested(verdict attestation.Verdict) {
	enforced := 0.0
	if verdict.IsEnforced() {
		enforced = 1
	}
	m.attestation.Reset()
	m.attestation.WithLabelValues(string(verdict.Reason)).Set(enforced)
}

// notTested removes that result: no cluster needs the policy.
func (m *Metrics) notTested() { m.attestation.Reset() }

func (m *Metrics) saw(cluster types.NamespacedName, ready, unready int) {
	m.members.WithLabelValues(cluster.Namespace, cluster.Name, "true").Set(float64(ready))
	m.members.WithLabelValues(cluster.Namespace, cluster.Name, "false").Set(float64(unready))
}

// expire sets how many CAs there are, and when the first of them and the first certificate of each plane expire. What is not known
// is left out.
func (m *Metrics) expire(cluster types.NamespacedName, cas, certificates map[contract.Plane][]*x509.Certificate) {
	for _, plane := range contract.Planes() {
		labels := []string{cluster.Namespace, cluster.Name, string(plane)}
		if len(cas[plane]) > 0 {
			m.cas.WithLabelValues(labels...).Set(float64(len(cas[plane])))
		} else {
			m.cas.DeleteLabelValues(labels...)
		}
	}
	for gauge, byPlane := range map[*prometheus.GaugeVec]map[contract.Plane][]*x509.Certificate{m.caEnds: cas, m.ends: certificates} {
		for _, plane := range contract.Planes() {
			labels := []string{cluster.Namespace, cluster.Name, string(plane)}
			if len(byPlane[plane]) == 0 {
				gauge.DeleteLabelValues(labels...)
				continue
			}
			first := slices.MinFunc(byPlane[plane], func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
			gauge.WithLabelValues(labels...).Set(float64(first.NotAfter.Unix()))
		}
	}
}

// loaded sets what agents of members report. A cluster whose agents are not polled has none of it.
func (m *Metrics) loaded(cluster types.NamespacedName, members []etcdv1beta2.MemberStatus, reported map[string]model.Reported) {
	first := map[string]time.Time{}
	for i := range members {
		for _, plane := range members[i].Loaded {
			if at, isKnown := first[plane.Plane]; plane.NotAfter != nil && (!isKnown || plane.NotAfter.Time.Before(at)) {
				first[plane.Plane] = plane.NotAfter.Time
			}
		}
	}
	for _, plane := range contract.Planes() { // a scrape never finds a series gone that stays
		labels := []string{cluster.Namespace, cluster.Name, string(plane)}
		if at, isKnown := first[string(plane)]; isKnown {
			m.loadedEnds.WithLabelValues(labels...).Set(float64(at.Unix()))
		} else {
			m.loadedEnds.DeleteLabelValues(labels...)
		}
	}
	silent := 0
	for _, known := range reported {
		if known.IsSilent() {
			silent++
		}
	}
	if len(reported) > 0 {
		m.silent.WithLabelValues(cluster.Namespace, cluster.Name).Set(float64(silent))
	} else {
		m.silent.DeleteLabelValues(cluster.Namespace, cluster.Name)
	}
}

// sized sets how large the databases of members are, by their names. A quota that is not known is left out.
func (m *Metrics) sized(cluster types.NamespacedName, sizes map[string]membership.Size) {
	for _, gauge := range []*prometheus.GaugeVec{m.sizes, m.inUse, m.quotas} {
		gauge.DeletePartialMatch(prometheus.Labels{namespaceLabel: cluster.Namespace, clusterLabel: cluster.Name})
	}
	for member, size := range sizes {
		m.sizes.WithLabelValues(cluster.Namespace, cluster.Name, member).Set(float64(size.Total))
		m.inUse.WithLabelValues(cluster.Namespace, cluster.Name, member).Set(float64(size.InUse))
		if size.Quota > 0 {
			m.quotas.WithLabelValues(cluster.Namespace, cluster.Name, member).Set(float64(size.Quota))
		}
	}
}

// alarmed sets the alarms that etcd has.
func (m *Metrics) alarmed(cluster types.NamespacedName, alarms []membership.Alarm) {
	m.alarms.DeletePartialMatch(prometheus.Labels{namespaceLabel: cluster.Namespace, clusterLabel: cluster.Name})
	for _, alarm := range alarms {
		m.alarms.WithLabelValues(cluster.Namespace, cluster.Name, cmp.Or(alarm.Name, alarm.ID), alarm.Kind).Set(1)
	}
}

func (m *Metrics) forget(cluster types.NamespacedName) {
	for _, gauge := range []*prometheus.GaugeVec{m.members, m.cas, m.caEnds, m.ends, m.loadedEnds, m.silent, m.alarms, m.sizes, m.inUse, m.quotas} {
		gauge.DeletePartialMatch(prometheus.Labels{namespaceLabel: cluster.Namespace, clusterLabel: cluster.Name})
	}
}
