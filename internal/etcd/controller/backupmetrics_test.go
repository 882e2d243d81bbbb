package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

func TestASingleBackupHasNoInterval(t *testing.T) {
	t.Parallel()
	m, backup := NewMetrics(), types.NamespacedName{Namespace: "etcd", Name: "nightly"}
	const hourly = `
		# HELP keyturn_etcd_backup_interval_seconds Time from one backup of an EtcdBackup to the next; absent for one that makes a single backup.
		# TYPE keyturn_etcd_backup_interval_seconds gauge
		keyturn_etcd_backup_interval_seconds{etcdbackup="nightly",namespace="etcd"} 3600
	`
	for _, step := range []struct {
		act  func()
		want string
	}{
		{func() { m.sawBackup(backup, nil, time.Hour) }, hourly},
		{func() { m.sawBackup(backup, nil, 0) }, ""},
		{func() { m.sawBackup(backup, nil, time.Hour) }, hourly},
		{func() { m.forgetBackup(backup) }, ""},
	} {
		step.act()
		if err := testutil.CollectAndCompare(m, strings.NewReader(step.want), "keyturn_etcd_backup_interval_seconds"); err != nil {
			t.Error(err)
		}
	}
}
