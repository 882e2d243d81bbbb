package apitest

import (
	"maps"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// labelsOf are those of the objects of an owner, with more keys and values in turn.
func labelsOf(app, owner string, more ...string) map[string]string {
	labels := map[string]string{
		"app": app, "app.kubernetes.io/name": app, "app.kubernetes.io/instance": owner, "app.kubernetes.io/managed-by": "keyturn-etcd-operator",
	}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

func ofCluster(more ...string) map[string]string {
	return labelsOf("etcd", cluster, append(more, "etcd_cluster", cluster)...)
}

// memberMarks are those of the objects of a member.
func memberMarks(member string) map[string]kubetest.Marks {
	labels := ofCluster("etcd_node", member)
	rows := map[string]kubetest.Marks{
		"PersistentVolumeClaim data-" + member: {Labels: labels, Annotations: map[string]string{"keyturn.dev/etcd-joined": kubetest.Any}},
		"Pod " + member: {Labels: ofCluster("etcd_node", member, "keyturn.dev/etcd-role", "voter"), Annotations: map[string]string{
			"etcd.version": kubetest.Any, "keyturn.dev/attestation": kubetest.Any, "keyturn.dev/etcd-pod-revision": kubetest.Any,
			"keyturn.dev/etcd-start": kubetest.Any, "keyturn.dev/pin": kubetest.Any, "keyturn.dev/published-revision": kubetest.Any,
			"kubeEtcdCSR-peer": kubetest.Any, "kubeEtcdCert-peer": kubetest.Any, "kubeEtcdCSR-client": kubetest.Any, "kubeEtcdCert-client": kubetest.Any,
		}},
	}
	for _, kind := range []string{"Role", "RoleBinding", "Secret", "ServiceAccount"} {
		rows[kind+" "+member] = kubetest.Marks{Labels: labels}
	}
	return rows
}

// backupMarks are those of the objects of a backup.
func backupMarks() map[string]kubetest.Marks {
	labels := labelsOf("etcd-backup", nightly, "keyturn.dev/etcd-backup-of", cluster)
	rows := map[string]kubetest.Marks{
		"EtcdBackup " + nightly:         {},
		"PersistentVolumeClaim backups": {},
		"Pod " + backupPod: {Labels: labels, Annotations: map[string]string{
			"keyturn.dev/attestation": kubetest.Any, "keyturn.dev/pin": kubetest.Any,
		}},
	}
	for _, kind := range []string{"Role", "RoleBinding", "Secret", "ServiceAccount"} {
		rows[kind+" "+backupPod] = kubetest.Marks{Labels: labels}
	}
	return rows
}

func TestEachObjectHasTheLabelsAndAnnotationsOfItsKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(2))
	w.bring()
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	rows := map[string]kubetest.Marks{
		"EtcdCluster " + cluster:         {},
		"NetworkPolicy " + cluster:       {Labels: ofCluster()},
		"PodDisruptionBudget " + cluster: {Labels: ofCluster()},
		"Service " + cluster + "-client": {Labels: ofCluster()},
		"Service " + cluster + "-peer":   {Labels: ofCluster()},
	}
	maps.Copy(rows, memberMarks(cluster+"-0"))
	maps.Copy(rows, memberMarks(cluster+"-1"))
	maps.Copy(rows, backupMarks())
	kubetest.CheckMarks(t, apiServer, w.namespace, rows)

	t.Run("in the namespace of the operator", func(t *testing.T) {
		t.Parallel()
		ofCAs := ofCluster("keyturn.dev/cluster-namespace", w.namespace, "keyturn.dev/cluster-uid", kubetest.Any, "keyturn.dev/namespace-uid", kubetest.Any)
		rows := map[string]kubetest.Marks{
			"ConfigMap " + w.clusterNames().Ledger(): {Labels: ofCAs},
			"ConfigMap " + w.clusterNames().Record(): {Labels: ofCAs},
		}
		for name, annotations := range map[string][]string{
			"ca": {"keyturn.dev/ca-key-generation"}, "ca-cert": {"keyturn.dev/ca-cert-generation"},
			"ca-trusted-certs": {"keyturn.dev/application", "keyturn.dev/application-since"},
		} {
			for _, plane := range contract.Planes() {
				marks := kubetest.Marks{Labels: ofCAs, Annotations: map[string]string{}}
				for _, annotation := range annotations {
					marks.Annotations[annotation] = kubetest.Any
				}
				rows["Secret "+w.namespace+"."+cluster+"-"+string(plane)+"-"+name] = marks
			}
		}
		rows["Secret "+w.namespace+"."+cluster+"-operator"] = kubetest.Marks{Labels: ofCAs}
		for _, name := range []string{"client-ca", "client-ca-cert", "peer-ca", "peer-ca-cert"} {
			rows["Secret keyturn-etcd-operator-"+name] = kubetest.Marks{
				Labels: map[string]string{"app": "etcd", "app.kubernetes.io/managed-by": "keyturn-etcd-operator"},
			}
		}
		kubetest.CheckMarks(t, apiServer, w.private, rows)
	})
}
