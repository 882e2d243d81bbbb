package apitest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

const verifiedPath = "lost/nightly/uid/70.db"

// restoring is a cluster that begins with a file.
func restoring(size int32, source etcdv1beta2.RestoreSource) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.Restore = &source
	return spec
}

func fromBackup() etcdv1beta2.RestoreSource {
	return etcdv1beta2.RestoreSource{Backup: &etcdv1beta2.RestoreBackup{Name: nightly}}
}

func fromVolume() etcdv1beta2.RestoreSource {
	return etcdv1beta2.RestoreSource{Volume: &etcdv1beta2.RestoreVolume{ClaimName: backups, Path: "data/member/snap/db"}}
}

// createBackup creates the EtcdBackup of a cluster that is lost.
func (w *world) createBackup() {
	w.t.Helper()
	w.create(&etcdv1beta2.EtcdBackup{ObjectMeta: w.meta(nightly), Spec: etcdv1beta2.EtcdBackupSpec{
		StorageType: etcdv1beta2.StorageVolume, EtcdCluster: &etcdv1beta2.ClusterReference{Name: "lost"}, Volume: &etcdv1beta2.VolumeStorage{ClaimName: backups},
	}})
}

// verify gives the EtcdBackup a verified file.
func (w *world) verify() {
	w.t.Helper()
	backup := w.backup()
	before := backup.DeepCopy()
	backup.Status.Path, backup.Status.ClaimName, backup.Status.SHA256, backup.Status.EtcdRevision = verifiedPath, backups, strings.Repeat("0f", 32), 70
	if err := w.person.Status().Patch(w.t.Context(), backup, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// restores plays the containers that restore: they end with a code and a result.
func (w *world) restores(code int32, result contract.RestoreResult) {
	w.t.Helper()
	text, err := result.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	pods := w.pods()
	for i := range pods {
		pod := &pods[i]
		if restoreOf(pod) == nil {
			continue
		}
		before := pod.DeepCopy()
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "keyturn-restore", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: string(text)},
		}}}
		if err := w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func succeeded() contract.RestoreResult {
	return contract.RestoreResult{Path: verifiedPath, Revision: 70}
}

// restoreOf is the container of a pod that restores; nil when it has none.
func restoreOf(pod *corev1.Pod) *corev1.Container {
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == "keyturn-restore" })
	if at < 0 {
		return nil
	}
	return &pod.Spec.InitContainers[at]
}

// beforePod reconciles until a reason is reported, and fails the test if there is a pod or a claim of a member.
func (w *world) beforePod(says string) {
	w.t.Helper()
	for range 4 {
		w.reconcile()
	}
	ready := w.condition(etcdv1beta2.ConditionReady)
	if ready.Reason != "RestoreSourceMissing" || !strings.Contains(ready.Message, says) {
		w.t.Errorf("Ready is %+v, want RestoreSourceMissing and something about %q", ready, says)
	}
	if pods, names := w.pods(), w.claimNames(); len(pods) > 0 || slices.Contains(names, "data-"+first) {
		w.t.Errorf("%d pods and claims %v are there before the file is known", len(pods), names)
	}
	w.writer.Sent = 0
	if result := w.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > kube.Unwatched || w.writer.Sent > 0 {
		w.t.Errorf("it is looked at again after %s, with %d writes", result.RequeueAfter, w.writer.Sent)
	}
}

func TestAClusterWaitsForTheFileThatItBeginsWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(1, fromBackup()))
	w.beforePod("EtcdBackup nightly of spec.restore does not exist")
	w.createBackup()
	w.beforePod("EtcdBackup nightly has no verified file")
	w.verify()
	w.beforePod("PersistentVolumeClaim backups of spec.restore does not exist")
	w.createBackupClaim()
	w.until("WaitingForPods")
	pod := w.pod(first)
	restore := restoreOf(pod)
	if restore == nil || !slices.Contains(restore.Command, "--path="+verifiedPath) || !slices.Contains(restore.Command, "--sha256="+strings.Repeat("0f", 32)) {
		t.Fatalf("the pod restores by %+v", restore)
	}
	mounted := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == backups
	})
	if !mounted {
		t.Errorf("the volumes are %+v", pod.Spec.Volumes)
	}
}

func TestARestoreThatFailsIsReportedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(3, fromVolume()))
	w.createBackupClaim()
	for range 3 {
		w.reconcile()
	}
	w.restores(1, contract.RestoreResult{Failure: contract.RestoreNotVerified, Message: "its hash does not belong to its data", Path: "data/member/snap/db"})
	w.reconcile()
	ready := w.condition(etcdv1beta2.ConditionReady)
	if ready.Reason != "RestoreNotVerified" || !strings.Contains(ready.Message, "its hash") || !strings.Contains(ready.Message, "etcd is not started") {
		t.Errorf("Ready is %+v", ready)
	}
	if !w.told("RestoreNotVerified") {
		t.Error("there is no event")
	}
	w.restores(0, succeeded())
	w.bring()
	want := &etcdv1beta2.RestoredStatus{ClaimName: backups, Path: verifiedPath, Revision: 70}
	restored := w.status().Restored
	if restored == nil || restored.Date == nil {
		t.Fatalf("restored is %+v", restored)
	}
	if restored.Date = nil; *restored != *want {
		t.Errorf("restored is %+v, want %+v", restored, want)
	}
	if !w.told("Restored File " + verifiedPath) {
		t.Error("there is no event about the restored data")
	}
	w.atRest()
}

func TestOnlyTheFirstPodOfANewClusterRestores(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(3, fromVolume()))
	w.createBackupClaim()
	w.bring()
	for i, pod := range w.pods() {
		if (restoreOf(&pod) != nil) != (i == 0) {
			t.Errorf("pod %s restores: %t", pod.Name, restoreOf(&pod) != nil)
		}
	}
	w.delete(w.pod(first))
	w.play()
	w.bring()
	if restoreOf(w.pod(first)) != nil {
		t.Error("the pod of a member that has joined restores")
	}
	w.atRest()
}

func TestARestoreIsChosenWhenAClusterIsCreated(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]*etcdv1beta2.RestoreSource{"with a restore": new(fromVolume()), "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := of(1)
			spec.Restore = source
			w := newWorld(t, spec)
			w.createBackupClaim()
			w.bring()
			for _, patch := range []string{
				`{"spec": {"restore": {"volume": {"claimName": "backups", "path": "other.db"}}}}`,
				`{"spec": {"restore": {"volume": null, "backup": {"name": "nightly"}}}}`,
			} {
				if err := w.tryChange(patch); err == nil || !strings.Contains(err.Error(), "restore must not be added or changed") {
					t.Errorf("%s: %v", patch, err)
				}
			}
			w.change(`{"spec": {"restore": null, "size": 3}}`)
			w.bringSafely()
			w.atRest()
		})
	}
}

func TestAnEtcdBackupMayGoOnceThePodKnowsItsFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(1, fromBackup()))
	w.createBackupClaim()
	w.createBackup()
	w.verify()
	for range 3 {
		w.reconcile()
	}
	pod := w.pod(first)
	w.delete(w.backup())
	w.reconcile()
	w.restores(0, succeeded())
	w.bring()
	if w.pod(first).UID != pod.UID || w.status().Restored == nil {
		t.Errorf("the pod is another one, or restored is %+v", w.status().Restored)
	}
}

// restoreWrites is more than a restore into a cluster of one member takes.
const restoreWrites = 45

// No pod of a first member starts without the data, wherever the operator crashes.
func TestWhereTheOperatorCrashesTheNextOneRestores(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 4)
	for _, crashAt := range crashes(1, 3, restoreWrites) {
		t.Run(strconv.Itoa(crashAt), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			w := newWorld(t, restoring(1, fromBackup()))
			w.createBackupClaim()
			w.createBackup()
			w.verify()
			w.writer.CrashAt = crashAt
			for range 20 {
				if _, err := w.try(); err != nil {
					if crashAt == restoreWrites {
						t.Errorf("%d writes are not more than it takes", restoreWrites)
					}
					break
				}
				w.restores(0, succeeded())
				w.play()
			}
			w.restart()
			for range 20 {
				w.reconcile()
				w.restores(0, succeeded())
				for _, pod := range w.pods() {
					if restoreOf(&pod) == nil {
						t.Fatalf("pod %s begins without data", pod.Name)
					}
				}
				w.play()
			}
			ready := w.condition(etcdv1beta2.ConditionReady)
			if restored := w.status().Restored; restored == nil || restored.Revision != 70 || ready.Status != metav1.ConditionTrue {
				t.Errorf("restored is %+v, Ready is %+v", restored, ready)
			}
			w.atRest()
		})
	}
}

func TestTheRunningOperatorRestoresWhenTheBackupIsVerifiedWithTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	rights := installed(t)
	w := newWorldIn(t, kubetest.Namespace(t, connect(t, apiServer), "etcd-"), "keyturn", connect(t, rights), restoring(1, fromBackup()))
	w.clock.SetTime(time.Now())
	w.etcd.Before = nil
	w.createBackupClaim()
	w.runIn(rights, &writes{})
	waits := func(says string) func() bool {
		return func() bool { return strings.Contains(w.condition(etcdv1beta2.ConditionReady).Message, says) }
	}
	w.eventually("the cluster waits for the EtcdBackup", waits("does not exist"))
	begun := time.Now()
	w.createBackup()
	w.eventually("the cluster waits for its file", waits("no verified file"))
	w.verify()
	w.eventually("the pod is there", func() bool { return len(w.pods()) == 1 })
	if took := time.Since(begun); took > kube.Unwatched/2 {
		t.Errorf("it took %s: the EtcdBackup is not watched", took)
	}
	if restoreOf(w.pod(first)) == nil {
		t.Error("the pod begins without data")
	}
	w.delete(w.cluster())
}
