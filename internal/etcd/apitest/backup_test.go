package apitest

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// nightly is the name of an EtcdBackup, backups that of its claim, and backupPod that of its pod.
const (
	nightly   = "nightly"
	backups   = "backups"
	backupPod = "nightly-backup"
)

// backUp creates an EtcdBackup of the cluster, every so many seconds.
func (w *world) backUp(interval int64) {
	w.t.Helper()
	w.create(&etcdv1beta2.EtcdBackup{ObjectMeta: w.meta(nightly), Spec: etcdv1beta2.EtcdBackupSpec{
		StorageType: etcdv1beta2.StorageVolume, EtcdCluster: &etcdv1beta2.ClusterReference{Name: cluster},
		Volume:       &etcdv1beta2.VolumeStorage{ClaimName: backups},
		BackupPolicy: &etcdv1beta2.BackupPolicy{BackupIntervalInSecond: interval, MaxBackups: 3},
	}})
}

func (w *world) createBackupClaim() {
	w.t.Helper()
	w.create(&corev1.PersistentVolumeClaim{ObjectMeta: w.meta(backups), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}})
}

func (w *world) tryBackup() (ctrl.Result, error) {
	return w.operator.ReconcileBackup(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: nightly}})
}

func (w *world) backup() *etcdv1beta2.EtcdBackup {
	w.t.Helper()
	backup := &etcdv1beta2.EtcdBackup{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: nightly}, backup); err != nil {
		w.t.Fatal(err)
	}
	return backup
}

// backsUp reconciles the EtcdBackup once and fails the test unless Ready has the reason.
func (w *world) backsUp(reason string) etcdv1beta2.EtcdBackupStatus {
	w.t.Helper()
	if _, err := w.tryBackup(); err != nil {
		w.t.Fatal(err)
	}
	status := w.backup().Status
	if len(status.Conditions) == 0 || status.Conditions[0].Reason != reason {
		w.t.Fatalf("the conditions are %+v, want %s", status.Conditions, reason)
	}
	return status
}

// askAsBackup sends the request of the pod for a key.
func (w *world) askAsBackup(key pki.PrivateKey) {
	w.t.Helper()
	a := &agent{keys: map[contract.Plane]pki.PrivateKey{contract.ClientPlane: key}}
	pod := w.pod(backupPod)
	w.annotateAs(w.ofPod(pod), backupPod, contract.ClientPlane.RequestAnnotation(), a.request(w.t, contract.ClientPlane))
}

// endBackup ends the container of the pod with a message.
func (w *world) endBackup(phase corev1.PodPhase, code int32, result contract.BackupResult) {
	w.t.Helper()
	text, err := result.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	pod := w.pod(backupPod)
	before := pod.DeepCopy()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backup", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: string(text)},
	}}}
	if err := w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func verified() contract.BackupResult {
	return contract.BackupResult{
		Path: "my-cluster/nightly/20260501T120000Z-70.db", Size: 20512, SHA256: strings.Repeat("0a", 32), Revision: 70, Version: "3.6.16",
	}
}

func (w *world) backupLeaf() *x509.Certificate {
	w.t.Helper()
	chain, err := enroll.Chain(w.pod(backupPod).Annotations[contract.ClientPlane.CertificateAnnotation()])
	if err != nil {
		w.t.Fatal(err)
	}
	anchors, err := pki.ParseBundle(w.secret(w.namespace, backupPod).Data[contract.ClientPlane.AnchorsKey()])
	if err != nil {
		w.t.Fatal(err)
	}
	if err := pki.Verify(chain, anchors, w.clock.Now(), pki.ClientAuth); err != nil {
		w.t.Errorf("the certificate is not valid for clients: %v", err)
	}
	return chain[0]
}

func (w *world) hasBackupPod() bool {
	w.t.Helper()
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: backupPod}, &corev1.Pod{})
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

func TestABackupIsMadeByAPodWithAClientCertificateUnderThePolicy(t *testing.T) {
	t.Parallel()
	w, _ := newAttested(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	pod := w.pod(backupPod)
	if pod.Labels["etcd_cluster"] != "" || *pod.Spec.ActiveDeadlineSeconds != 600 || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("the pod is %+v", pod.Spec)
	}
	key := newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	w.askAsBackup(key)
	w.backsUp("BackupRunning")
	leaf := w.backupLeaf()
	if leaf.Subject.CommonName != "my-cluster-backup" || len(leaf.Subject.Organization)+len(leaf.DNSNames)+len(leaf.IPAddresses) > 0 || !belongs(leaf, key) {
		t.Errorf("the certificate is for %s, %v and %v", leaf.Subject, leaf.DNSNames, leaf.IPAddresses)
	}
	if life := leaf.NotAfter.Sub(w.clock.Now()); life > 20*time.Minute+time.Second {
		t.Errorf("the certificate is valid for %s, want the timeout and ten minutes", life)
	}
	issued := w.ledger()[leaf.SerialNumber.Text(16)]
	if issued.PodUID != string(pod.UID) || issued.Plane != contract.ClientPlane {
		t.Errorf("the ledger has %+v", issued)
	}
	for name, value := range w.secret(w.namespace, backupPod).Data {
		if strings.Contains(string(value), "PRIVATE KEY") {
			t.Errorf("the Secret has a key in %s", name)
		}
	}
	w.endBackup(corev1.PodSucceeded, 0, verified())
	status := w.backsUp("BackupSucceeded")
	if !status.Succeeded || status.EtcdRevision != 70 || status.EtcdVersion != "3.6.16" || status.Size != 20512 || status.Path != verified().Path ||
		status.SHA256 != verified().SHA256 || !status.LastSuccessDate.Time.Equal(w.clock.Now()) || status.PodUID != "" {
		t.Errorf("the status is %+v", status)
	}
	if !w.told("BackupSucceeded") {
		t.Error("no event tells of the backup")
	}
	w.backsUp("BackupSucceeded")
	if w.hasBackupPod() {
		t.Error("the pod is not deleted after its result is recorded")
	}
	w.writer.Sent = 0
	w.restart()
	w.clock.SetTime(w.clock.Now().Add(24 * time.Hour))
	w.backsUp("BackupSucceeded")
	if w.writer.Sent > 0 || w.hasBackupPod() {
		t.Errorf("%d writes although one backup was asked for: %s", w.writer.Sent, w.writer.Last)
	}
}

func TestBackupsAreRepeatedAndFailedOnesAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(3600)
	again := func(after time.Duration) {
		w.clock.SetTime(w.clock.Now().Add(after))
		if result, err := w.tryBackup(); err != nil || result.RequeueAfter > 0 && w.hasBackupPod() {
			t.Fatalf("%v, %v", result, err)
		}
	}
	w.backsUp("BackupRunning")
	w.endBackup(corev1.PodFailed, 1, contract.BackupResult{Failure: contract.SnapshotNotVerified, Message: "its hash does not belong to its data"})
	if status := w.backsUp("SnapshotNotVerified"); status.Succeeded || status.LastSuccessDate != nil {
		t.Errorf("a backup that is not verified counts: %+v", status)
	}
	w.backsUp("SnapshotNotVerified")
	again(4 * time.Minute)
	if w.hasBackupPod() {
		t.Error("the next one is not waited for")
	}
	again(time.Minute)
	w.endBackup(corev1.PodSucceeded, 0, verified())
	w.backsUp("BackupSucceeded")
	w.backsUp("BackupSucceeded")
	again(59 * time.Minute)
	if w.hasBackupPod() {
		t.Error("the next one is made too early")
	}
	again(time.Minute)
	if !w.hasBackupPod() {
		t.Error("the next one is not made after an hour")
	}
}

func TestWhatKeepsABackupFromBeingMadeIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.backUp(0)
	w.backsUp("CANotReady")
	w.bring()
	w.backsUp("ClaimNotFound")
	w.createBackupClaim()
	w.create(&corev1.Secret{ObjectMeta: w.meta(backupPod)})
	w.backsUp("ForeignObject")
	if err := w.person.Delete(t.Context(), w.secret(w.namespace, backupPod)); err != nil {
		t.Fatal(err)
	}
	w.setUnready(first)
	w.reconcile()
	w.backsUp("NoQuorum")
	w.bring()
	w.backsUp("BackupRunning")
	pod := w.pod(backupPod)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	if err := w.kubelet.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if status := w.backsUp("PodNotScheduled"); !strings.Contains(status.Conditions[0].Message, "0/1 nodes") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	if err := w.person.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	w.backsUp("PodLost")
}

// reader counts what is read past the cache.
type reader struct {
	client.Client

	reads int
}

func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	r.reads++
	return r.Client.Get(ctx, key, object, opts...)
}

func TestABackupWithoutItsClaimIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	counted := &reader{Client: w.asOperator}
	w.asOperator = counted
	w.restart()
	w.backUp(3600)
	looks := 0
	for waited := time.Duration(0); waited < 24*time.Hour; looks++ {
		w.backsUp("ClaimNotFound")
		counted.reads = 0
		result, err := w.tryBackup()
		if err != nil || result.RequeueAfter < 30*time.Second || result.RequeueAfter > 10*time.Minute || counted.reads > 4 {
			t.Fatalf("after %s, it is looked at again in %s with %d reads: %v", waited, result.RequeueAfter, counted.reads, err)
		}
		w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
		waited += result.RequeueAfter
	}
	if looks > 150 {
		t.Errorf("it is looked at %d times a day", looks)
	}
	w.createBackupClaim()
	w.backsUp("BackupRunning")
}

func TestABackupCountsForItsClaimAndItsClusterOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ patch, reason string }{
		"another claim":         {`{"spec": {"volume": {"claimName": "not-there"}}}`, "ClaimNotFound"},
		"a claim without name":  {`{"spec": {"volume": {"claimName": "a/b"}}}`, "ClaimNotFound"},
		"another cluster":       {`{"spec": {"etcdCluster": {"name": "not-there"}}}`, "ClusterNotFound"},
		"another interval only": {`{"spec": {"backupPolicy": {"backupIntervalInSecond": 86400}}}`, "BackupSucceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			w.bring()
			w.createBackupClaim()
			w.backUp(0)
			w.backsUp("BackupRunning")
			w.endBackup(corev1.PodSucceeded, 0, verified())
			w.backsUp("BackupSucceeded")
			w.backsUp("BackupSucceeded")
			patch := client.RawPatch(types.MergePatchType, []byte(test.patch))
			if err := w.person.Patch(t.Context(), &etcdv1beta2.EtcdBackup{ObjectMeta: w.meta(nightly)}, patch); err != nil {
				t.Fatal(err)
			}
			w.backsUp(test.reason)
			w.backsUp(test.reason)
		})
	}
}

func TestABackupWithoutItsClusterOrToAnotherStoreIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	for reason, spec := range map[string]string{
		"NotSupported":    `{"storageType": "S3", "etcdEndpoints": ["https://a:2379"], "s3": {"path": "bucket/a", "awsSecret": "aws"}, "clientTLSSecret": "b"}`,
		"ClusterNotFound": `{"storageType": "Volume", "etcdCluster": {"name": "other"}, "volume": {"claimName": "backups"}}`,
	} {
		backup := &etcdv1beta2.EtcdBackup{ObjectMeta: w.meta(nightly)}
		if err := json.Unmarshal([]byte(spec), &backup.Spec); err != nil {
			t.Fatal(err)
		}
		w.create(backup)
		w.backsUp(reason)
		if err := w.person.Delete(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
	}
}

func TestABackupOfAClusterWithoutTLSIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, insecure(1))
	w.bringSafely()
	w.createBackupClaim()
	w.backUp(0)

	if status := w.backsUp("NotSupported"); !strings.Contains(status.Conditions[0].Message, "spec.TLS.insecure") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	if w.hasBackupPod() {
		t.Error("it has a pod")
	}
}

func TestTheRoleOfABackupIsNotWrittenWhileItIsBoundToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: w.meta("hers"), Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: backupPod},
	}
	w.create(binding)
	w.backUp(0)

	if status := w.backsUp("RoleBoundElsewhere"); !strings.Contains(status.Conditions[0].Message, "RoleBinding hers") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: backupPod}, &rbacv1.Role{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading the Role: %v", err)
	}
	if w.hasBackupPod() {
		t.Error("it has a pod")
	}
	if err := w.person.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	w.backsUp("BackupRunning")
}

func TestOnlyTheRecordedPodOfABackupIsCertified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	w.backUp(0)
	w.backsUp("BackupRunning")
	member := w.pod(first).Annotations[contract.ClientPlane.RequestAnnotation()]
	w.annotate(backupPod, contract.ClientPlane.RequestAnnotation(), member)
	if status := w.backsUp("RequestDenied"); !strings.Contains(status.Conditions[0].Message, "KeyOfAnotherPod") {
		t.Errorf("the message is %s", status.Conditions[0].Message)
	}
	// A pod of the same name and owner that others have created.
	forged := w.pod(backupPod)
	if err := w.person.Delete(t.Context(), forged, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	forged.ResourceVersion, forged.UID = "", ""
	w.create(forged)
	w.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	for range 3 {
		if _, err := w.tryBackup(); err != nil {
			t.Fatal(err)
		}
		if w.hasBackupPod() && w.pod(backupPod).Annotations[contract.ClientPlane.CertificateAnnotation()] != "" {
			t.Fatal("the forged pod has a certificate")
		}
	}
	w.backsUp("PodLost")
}

func TestACrashAfterAnyWriteLeavesABackupThatIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.createBackupClaim()
	for crash := 1; ; crash++ {
		w.backUp(0)
		w.restart()
		w.writer.CrashAt = crash
		crashed := false
		for step := 0; ; step++ {
			if _, err := w.tryBackup(); err != nil {
				crashed = true
				w.restart()
			}
			status := w.backup().Status
			if status.Succeeded && !w.hasBackupPod() {
				break
			}
			if step > 20 {
				t.Fatalf("after a crash before write %d no backup is made: %+v", crash, status)
			}
			if !w.hasBackupPod() {
				continue
			}
			pod := w.pod(backupPod)
			if answer := pod.Annotations[contract.ClientPlane.CertificateAnnotation()]; answer != "" {
				if serial := w.backupLeaf().SerialNumber.Text(16); w.ledger()[serial].PodUID != string(pod.UID) {
					t.Errorf("after a crash before write %d the ledger does not have the certificate", crash)
				}
				if status.PodUID == pod.UID {
					w.endBackup(corev1.PodSucceeded, 0, verified())
				}
			} else if pod.Annotations[contract.ClientPlane.RequestAnnotation()] == "" {
				w.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
			}
		}
		w.removeBackup()
		if !crashed {
			if crash < 10 {
				t.Errorf("there are %d writes, want those of the account, the Secret, the pod, its certificate and the status", crash-1)
			}
			return
		}
	}
}

// removeBackup deletes the EtcdBackup, and what the API server removes with it in a Kubernetes cluster.
func (w *world) removeBackup() {
	w.t.Helper()
	for _, object := range []client.Object{
		w.backup(), w.secret(w.namespace, backupPod), &corev1.ServiceAccount{ObjectMeta: w.meta(backupPod)},
		&rbacv1.Role{ObjectMeta: w.meta(backupPod)}, &rbacv1.RoleBinding{ObjectMeta: w.meta(backupPod)},
	} {
		if err := w.person.Delete(w.t.Context(), object); err != nil && !apierrors.IsNotFound(err) {
			w.t.Fatal(err)
		}
	}
}

// setUnready lets the pod of a member fail its probe.
func (w *world) setUnready(member string) {
	w.t.Helper()
	pod := w.pod(member)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if err := w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func TestTheRunningOperatorMakesABackupWithTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	rights := installed(t)
	w := newWorldIn(t, kubetest.Namespace(t, connect(t, apiServer), "etcd-"), "keyturn", connect(t, rights), of(1))
	w.clock.SetTime(time.Now())
	w.etcd.Before = nil
	w.createBackupClaim()
	w.backUp(0)
	counted := &writes{}
	w.runIn(rights, counted)
	// It is created when the cluster has become available, which the backup waits for.
	w.eventually("the pod is recorded", func() bool { return w.hasBackupPod() && w.backup().Status.PodUID == w.pod(backupPod).UID })
	w.askAsBackup(newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}))
	w.eventually("the pod has a certificate", func() bool { return w.pod(backupPod).Annotations[contract.ClientPlane.CertificateAnnotation()] != "" })
	w.endBackup(corev1.PodSucceeded, 0, verified())
	w.eventually("the backup counts", func() bool { return w.backup().Status.Succeeded && !w.hasBackupPod() })
	w.delete(w.cluster())
	w.eventually("the cluster is gone", func() bool {
		return apierrors.IsNotFound(w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, &etcdv1beta2.EtcdCluster{}))
	})
}

// The pod of a backup writes to its claim.
func TestTheDataOfAServerReceivesNoBackups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta("another"), Spec: of(1)})
	w.createBackupClaim()
	w.backUp(0)
	name := func(claim string) func() {
		return func() {
			w.patch(w.backup(), merge(`{"spec": {"volume": {"claimName": %q}}}`, claim))
		}
	}
	claim := func(patch client.Patch) func() {
		return func() {
			name(backups)()
			w.patch(&corev1.PersistentVolumeClaim{ObjectMeta: w.meta(backups)}, patch)
		}
	}
	for _, test := range []struct {
		name string
		set  func()
	}{
		{"a member's", name("data-my-cluster-0")},
		{"that of a member to come", name("data-my-cluster-6")},
		{"that of a member of another cluster", name("data-another-0")},
		{"with labels of a cluster", claim(labelling("app.kubernetes.io/managed-by", "keyturn-etcd-operator"))},
		{"of a Kafka node", claim(merge(`{"metadata": {"labels": {"app.kubernetes.io/managed-by": null, "strimzi.io/cluster": "my-cluster"}}}`))},
		{"of another controller", claim(merge(`{"metadata": {"labels": null, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true}]}}`))},
	} {
		test.set()
		message := w.backsUp("ClaimInUse").Conditions[0].Message
		if !strings.Contains(message, w.backup().Spec.Volume.ClaimName) || w.hasBackupPod() {
			t.Errorf("a claim %s: %q", test.name, message)
		}
	}
	claim(merge(`{"metadata": {"ownerReferences": null}}`))()
	w.backsUp("BackupRunning")
}
