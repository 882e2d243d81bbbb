package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (m *Metrics) backupEnded(backup types.NamespacedName, result string) {
	m.backups.WithLabelValues(backup.Namespace, backup.Name, result).Inc()
}

func (m *Metrics) sawBackup(backup types.NamespacedName, lastSuccess *metav1.Time, interval time.Duration) {
	m.backupInterval.DeleteLabelValues(backup.Namespace, backup.Name)
	if interval > 0 {
		m.backupInterval.WithLabelValues(backup.Namespace, backup.Name).Set(interval.Seconds())
	}
	seconds := 0.0
	if lastSuccess != nil {
		seconds = float64(lastSuccess.Unix())
	}
	m.lastBackup.WithLabelValues(backup.Namespace, backup.Name).Set(seconds)
}

func (m *Metrics) forgetBackup(backup types.NamespacedName) {
	labels := prometheus.Labels{namespaceLabel: backup.Namespace, backupLabel: backup.Name}
	m.backups.DeletePartialMatch(labels)
	m.lastBackup.DeletePartialMatch(labels)
	m.backupInterval.DeletePartialMatch(labels)
}
