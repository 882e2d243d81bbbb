package model_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func backupOf(change func(*etcdv1beta2.EtcdBackup)) model.Backup {
	backup := &etcdv1beta2.EtcdBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "etcd", Name: "nightly", UID: "backup-uid"},
		Spec: etcdv1beta2.EtcdBackupSpec{
			StorageType: etcdv1beta2.StorageVolume, EtcdCluster: &etcdv1beta2.ClusterReference{Name: "my-cluster"},
			Volume: &etcdv1beta2.VolumeStorage{ClaimName: "backups"}, BackupPolicy: &etcdv1beta2.BackupPolicy{},
		},
	}
	if change != nil {
		change(backup)
	}
	return model.Backup{EtcdBackup: backup}
}

// backupPod is a pod of the EtcdBackup with the UID pod-uid.
func backupPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "etcd", Name: "nightly-backup", UID: "pod-uid",
		Labels: backupOf(nil).Labels(), OwnerReferences: []metav1.OwnerReference{backupOf(nil).Owner()},
	}}
	if change != nil {
		change(pod)
	}
	return pod
}

func ended(phase corev1.PodPhase, code int32, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message},
		}}}
	}
}

func at(after time.Duration) *metav1.Time {
	return new(metav1.NewTime(noon().Add(after)))
}

func TestWhatIsDueForABackup(t *testing.T) {
	t.Parallel()
	running := func(b *etcdv1beta2.EtcdBackup) { b.Status.PodUID = "pod-uid" }
	hourly := func(success, failure *metav1.Time) func(*etcdv1beta2.EtcdBackup) {
		return func(b *etcdv1beta2.EtcdBackup) {
			b.Spec.BackupPolicy.BackupIntervalInSecond = 3600
			b.Status.LastSuccessDate, b.Status.LastFailureDate = success, failure
		}
	}
	verified := contract.BackupResult{Path: "a/b/c.db", Size: 1, SHA256: "00", Revision: 7, Version: "3.6.16"}
	text, err := verified.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		backup func(*etcdv1beta2.EtcdBackup)
		pod    *corev1.Pod
		want   model.BackupAct
	}{
		"a new one starts":                        {nil, nil, model.StartBackup{}},
		"one that was made once is done":          {func(b *etcdv1beta2.EtcdBackup) { b.Status.LastSuccessDate = at(-time.Hour) }, nil, model.NextBackup{}},
		"the next one has its time":               {hourly(at(-59*time.Minute), nil), nil, model.NextBackup{At: noon().Add(time.Minute)}},
		"the next one is due":                     {hourly(at(-time.Hour), nil), nil, model.StartBackup{}},
		"a failed one waits":                      {hourly(at(-2*time.Hour), at(-time.Minute)), nil, model.NextBackup{At: noon().Add(4 * time.Minute)}},
		"a failed one is tried again":             {func(b *etcdv1beta2.EtcdBackup) { b.Status.LastFailureDate = at(-5 * time.Minute) }, nil, model.StartBackup{}},
		"a date in the future counts as now":      {hourly(at(24*time.Hour), nil), nil, model.NextBackup{At: noon().Add(time.Hour)}},
		"a pod that is not recorded is removed":   {nil, backupPod(nil), model.RemoveBackupPod{}},
		"one that is ending is waited for":        {nil, backupPod(func(p *corev1.Pod) { p.DeletionTimestamp = at(0) }), model.NextBackup{}},
		"a pod that runs is waited for":           {running, backupPod(nil), model.AwaitBackup{}},
		"the result of a pod is recorded":         {running, backupPod(ended(corev1.PodSucceeded, 0, string(text))), model.EndBackup{Result: verified, Made: model.MadeFor{Cluster: "my-cluster"}}},
		"another pod of the name is removed":      {running, backupPod(func(p *corev1.Pod) { p.UID = "other" }), model.RemoveBackupPod{}},
		"a pod in time is waited for":             {running, backupPod(func(p *corev1.Pod) { p.Status.StartTime = at(-11 * time.Minute) }), model.AwaitBackup{Until: noon().Add(time.Minute)}},
		"a pod that starts its container is fine": {running, backupPod(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ContainerCreating") }), model.AwaitBackup{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := backupOf(test.backup).Decide(test.pod, noon()); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}

func waiting(reason string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}
}

func TestABackupThatCannotGoOnSaysWhy(t *testing.T) {
	t.Parallel()
	running := func(b *etcdv1beta2.EtcdBackup) { b.Status.PodUID = "pod-uid" }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want model.Reason
	}{
		"a pod of others": {backupPod(func(p *corev1.Pod) { p.OwnerReferences = nil }), model.ForeignObject},
		// The admission policy covers only pods with the label.
		"a pod that the policy does not cover": {backupPod(func(p *corev1.Pod) { p.Labels = nil }), model.ForeignObject},
		"a pod on no node": {backupPod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no space"}}
		}), model.PodNotScheduled},
		"a lost machine":             {backupPod(func(p *corev1.Pod) { p.Status.StartTime = at(-12 * time.Minute) }), model.PodOverdue},
		"an image that is not there": {backupPod(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ImagePullBackOff") }), model.PodNotStarted},
		"an image for which a Secret is missing": {backupPod(func(p *corev1.Pod) {
			p.Spec.ImagePullSecrets, p.Status.ContainerStatuses = mirrored().PullSecrets, waiting("ErrImagePull")
		}), model.PodNotStarted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var problem *model.Problem
			switch act := backupOf(running).Decide(test.pod, noon()).(type) {
			case model.HoldBackup:
				problem = act.Problem
			case model.AwaitBackup:
				problem = act.Problem
			default:
			}
			if problem == nil || problem.Reason != test.want {
				t.Errorf("the problem is %v, want %s", problem, test.want)
			}
		})
	}
}

func TestAFailedBackupIsExplained(t *testing.T) {
	t.Parallel()
	denied, err := contract.BackupResult{Failure: contract.SnapshotDenied, Message: "permission denied"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		reason string
		says   string
	}{
		"authentication of etcd": {backupPod(ended(corev1.PodFailed, 1, string(denied))), "SnapshotDenied", "etcdctl user grant-role my-cluster-backup root"},
		"a deleted pod":          {nil, "PodLost", "was deleted before"},
		"a pod that took too long": {backupPod(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
		}), "PodFailed", "DeadlineExceeded"},
		"a killed agent":               {backupPod(ended(corev1.PodFailed, 137, "")), "PodFailed", "exit code 137"},
		"success that is not reported": {backupPod(ended(corev1.PodSucceeded, 0, `{"path": "x"}`)), "PodFailed", "no result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backup := backupOf(func(b *etcdv1beta2.EtcdBackup) {
				b.Status.PodUID, b.Status.Succeeded, b.Status.LastSuccessDate = "pod-uid", true, at(-time.Hour)
			})
			act, is := backup.Decide(test.pod, noon()).(model.EndBackup)
			if !is {
				t.Fatalf("got %#v", act)
			}
			status := backup.Next(model.BackupSeen{Result: &act.Result, Now: noon()})
			ready := status.Conditions[0]
			if ready.Reason != test.reason || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, test.says) {
				t.Errorf("Ready is %+v, want %s and %q", ready, test.reason, test.says)
			}
			if status.Succeeded || status.Reason != ready.Message || status.PodUID != "" || !status.LastSuccessDate.Equal(at(-time.Hour)) {
				t.Errorf("the status is %+v", status)
			}
			if !strings.Contains(ready.Message, "2026-05-01T12:05:00Z") {
				t.Errorf("the message does not say when the next one is tried: %s", ready.Message)
			}
		})
	}
}

func TestTheImageOfABackupIsPulledWithTheSecretsOfTheOperator(t *testing.T) {
	t.Parallel()
	cluster, _ := model.Resolve(three(t), mirrored())
	secrets := backupOf(nil).Pod(cluster, "pin").Spec.ImagePullSecrets
	if len(secrets) != 1 || secrets[0].Name != "registry-credentials" {
		t.Errorf("the pull Secrets are %v", secrets)
	}
	secrets[0].Name = "changed"
	if again := backupOf(nil).Pod(cluster, "pin").Spec.ImagePullSecrets; again[0].Name == "changed" {
		t.Error("a change of a pod changes the settings of the operator")
	}
}

func TestAClusterThatIsCreatedAgainHasBackupsOfItsOwn(t *testing.T) {
	t.Parallel()
	commands := map[string]bool{}
	for _, uid := range []types.UID{"uid-1", "uid-2"} {
		etcd := three(t)
		etcd.UID = uid
		cluster, _ := model.Resolve(etcd, settings())
		command := strings.Join(backupOf(nil).Pod(cluster, "pin").Spec.Containers[0].Command, " ")
		if !strings.Contains(command, "--cluster-uid="+string(uid)) {
			t.Errorf("the command is %s", command)
		}
		commands[command] = true
	}
	if len(commands) != 2 {
		t.Errorf("the commands are %v, want one for each cluster", commands)
	}
}

func TestANameThatIsOnlyLikeThatOfAClaimReceivesBackups(t *testing.T) {
	t.Parallel()
	backup := model.Backup{EtcdBackup: &etcdv1beta2.EtcdBackup{}}
	for name, isUsable := range map[string]bool{
		"data-my-cluster-0": false, "data-my-cluster-6": false, "data-my-cluster-7": true, "data-my-cluster-00": true, "data-my-cluster": true, "my-cluster-0": true,
	} {
		backup.Spec.Volume = &etcdv1beta2.VolumeStorage{ClaimName: name}
		if problem := backup.CheckClaim(&corev1.PersistentVolumeClaim{}, []string{"my-cluster"}); (problem == nil) != isUsable {
			t.Errorf("claim %s: %+v", name, problem)
		}
	}
}
