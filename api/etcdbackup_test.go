package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimalBackup = `
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdBackup
metadata: {name: my-backup, namespace: etcd}
spec: {storageType: Volume, volume: {claimName: backups}, etcdCluster: {name: my-cluster}}
`

func TestEtcdBackupRules(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, etcdBackups, "v1beta2")
	const (
		volume   = "spec.volume: Invalid value: volume must be set if storageType is Volume, and only then, because it names where the backups are stored"
		interval = "spec.backupPolicy.backupIntervalInSecond: Invalid value: backupIntervalInSecond must be 0 or at least 60 because a backup needs time"
	)
	for name, test := range map[string]ruleCase{
		"a minimal manifest is accepted":      {patch: `{}`},
		"one of the public operator is too":   {patch: `spec: {storageType: S3, volume: null, etcdCluster: null, etcdEndpoints: [a], s3: {path: a, awsSecret: b}}`},
		"another store with a volume":         {patch: `spec: {storageType: GCS}`, want: []string{volume}},
		"a volume that is not named":          {patch: `spec: {volume: null}`, want: []string{volume}},
		"a cluster that is not named":         {patch: `spec: {etcdCluster: null}`, want: []string{"spec.etcdCluster: Invalid value: etcdCluster must be set because its CA signs the certificate of the backup"}},
		"a store that is not known":           {patch: `spec: {storageType: Tape, volume: null}`, want: []string{`spec.storageType: Unsupported value: supported values: "Volume", "S3", "ABS", "GCS", "OSS"`}},
		"backups every minute are accepted":   {patch: `spec: {backupPolicy: {backupIntervalInSecond: 60, maxBackups: 0}}`},
		"backups every 59 seconds":            {patch: `spec: {backupPolicy: {backupIntervalInSecond: 59}}`, want: []string{interval}},
		"backups in the past":                 {patch: `spec: {backupPolicy: {backupIntervalInSecond: -1}}`, want: []string{"spec.backupPolicy.backupIntervalInSecond: Invalid value: spec.backupPolicy.backupIntervalInSecond in body should be greater than or equal to 0"}},
		"less than no backups":                {patch: `spec: {backupPolicy: {maxBackups: -1}}`, want: []string{"spec.backupPolicy.maxBackups: Invalid value: spec.backupPolicy.maxBackups in body should be greater than or equal to 0"}},
		"a name of 55 characters is accepted": {patch: `metadata: {name: ` + strings.Repeat("a", 55) + `}`},
		"a name of 56 characters":             {patch: `metadata: {name: ` + strings.Repeat("a", 56) + `}`, want: []string{"metadata: Invalid value: metadata.name must have at most 55 characters because the name of its pod is made of it"}},
		"a name with a dot":                   {patch: `metadata: {name: my.backup}`, want: []string{"metadata: Invalid value: metadata.name must not have a dot because labels and paths are made of it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, got := admission.admit(t, merged(t, minimalBackup, test.patch))
			want := test.want
			if want == nil {
				want = []string{}
				decodeTyped(t, stored)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused for other reasons than expected (-want +got):\n%s", diff)
			}
		})
	}
}
