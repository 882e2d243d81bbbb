package model

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/imagepull"
)

// Reasons of the condition of an EtcdBackup, besides contract.BackupFailure.
const (
	BackupSucceeded Reason = "BackupSucceeded"
	BackupRunning   Reason = "BackupRunning"
	ClusterNotFound Reason = "ClusterNotFound"
	ClaimNotFound   Reason = "ClaimNotFound"
	ClaimInUse      Reason = "ClaimInUse"
	PodNotScheduled Reason = "PodNotScheduled"
	PodNotStarted   Reason = "PodNotStarted"
	PodOverdue      Reason = "PodOverdue"
	PodFailed       Reason = "PodFailed"
	PodLost         Reason = "PodLost"
)

// backupRetry is how long after a failed backup the next one is made.
const backupRetry = 5 * time.Minute

// endingSlack is how long the kubelet may take to end a pod after its timeout.
const endingSlack = 2 * time.Minute

// BackupAct is what is to be done for an EtcdBackup.
type BackupAct interface{ isBackupAct() }

type (
	// StartBackup creates the pod.
	StartBackup struct{}
	// AwaitBackup answers the request of the pod. Problem is what keeps the pod from its work, nil when nothing is known.
	// Until is when the pod must have ended; zero when it has not begun.
	AwaitBackup struct {
		Problem *Problem
		Until   time.Time
	}
	// EndBackup records what came of the pod, and what it was made for.
	EndBackup struct {
		Result contract.BackupResult
		Made   MadeFor
	}
	// RemoveBackupPod deletes a pod whose result is recorded, or whose creation is not.
	RemoveBackupPod struct{}
	// HoldBackup is a pod of this name that is not the EtcdBackup's.
	HoldBackup struct{ Problem *Problem }
	// NextBackup has nothing to do until then; zero means never.
	NextBackup struct{ At time.Time }
)

// MadeFor is the cluster that a pod copies, and the claim that it copies to.
type MadeFor struct{ Cluster, Claim string }

func (StartBackup) isBackupAct()     {}
func (AwaitBackup) isBackupAct()     {}
func (EndBackup) isBackupAct()       {}
func (RemoveBackupPod) isBackupAct() {}
func (HoldBackup) isBackupAct()      {}
func (NextBackup) isBackupAct()      {}

// Decide says what is to be done, with the pod of its name as it is; nil when there is none.
func (b Backup) Decide(pod *corev1.Pod, now time.Time) BackupAct {
	recorded := b.Status.PodUID
	switch {
	case pod != nil && (pod.UID != recorded || !b.isOurs(pod)):
		return b.setAside(pod)
	case recorded != "" && pod == nil:
		return EndBackup{Result: failed(PodLost, fmt.Sprintf("pod %s was deleted before it had a result", b.PodName()))}
	case pod != nil:
		return b.observe(pod, now)
	}
	if due := b.due(now); due.IsZero() || due.After(now) {
		return NextBackup{due}
	}
	return StartBackup{}
}

// isOurs reports whether the operator has created the pod. Where the admission policy is in force, others cannot create
// one with the label.
func (b Backup) isOurs(pod *corev1.Pod) bool {
	return b.IsOwned(pod) && pod.Labels[ManagedByLabel] == Manager
}

// setAside says what becomes of a pod that is not recorded.
func (b Backup) setAside(pod *corev1.Pod) BackupAct {
	switch {
	case !b.isOurs(pod):
		return HoldBackup{&Problem{ForeignObject, fmt.Sprintf(
			"Pod %s is not owned by this EtcdBackup. No backup is made. Delete the pod, or create an EtcdBackup of another name.", pod.Name)}}
	case pod.DeletionTimestamp.IsZero():
		return RemoveBackupPod{}
	default:
		return NextBackup{} // the pod's end tells
	}
}

// observe says what the recorded pod needs.
func (b Backup) observe(pod *corev1.Pod, now time.Time) BackupAct {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return EndBackup{resultOf(pod), madeFor(pod)}
	}
	await := AwaitBackup{Problem: b.hindered(pod)}
	if begun := pod.Status.StartTime; begun != nil {
		await.Until = begun.Add(b.timeout() + endingSlack)
		if await.Problem == nil && !now.Before(await.Until) {
			await.Problem = &Problem{PodOverdue, fmt.Sprintf(
				"Pod %s has not ended after its timeout. Its machine may be lost. No other backup is made meanwhile. Delete the pod; use --force if its machine does not come back.", pod.Name)}
		}
	}
	return await
}

// hindered says what keeps the pod from starting; nil when nothing is known.
func (b Backup) hindered(pod *corev1.Pod) *Problem {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return &Problem{PodNotScheduled, fmt.Sprintf(
				"Pod %s is on no node: %s. The backup waits. Add a node that fits, or use another claim.", pod.Name, excerpt.Of(condition.Message, excerpt.Foreign))}
		}
	}
	if imagepull.Awaits(pod) {
		return &Problem{PodNotStarted, fmt.Sprintf("Pod %s does not start, because %s. The backup waits until its timeout.", pod.Name, imagepull.Cause(pod))}
	}
	for i := range pod.Status.ContainerStatuses {
		waiting := pod.Status.ContainerStatuses[i].State.Waiting
		if waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			return &Problem{PodNotStarted, fmt.Sprintf(
				"Pod %s does not start (%s): %s. The backup waits until its timeout. See the events of the pod.",
				pod.Name, excerpt.Of(waiting.Reason, excerpt.Value), excerpt.Of(waiting.Message, excerpt.Foreign))}
		}
	}
	return nil
}

// resultOf reads what the pod reports.
func resultOf(pod *corev1.Pod) contract.BackupResult {
	for i := range pod.Status.ContainerStatuses {
		ended := pod.Status.ContainerStatuses[i].State.Terminated
		if ended == nil {
			continue
		}
		result, err := contract.ParseBackupResult(ended.Message)
		if err == nil && (result.Failure.IsKnown() || result.Failure == "" && ended.ExitCode == 0 && result.SHA256 != "") {
			return result
		}
		return failed(PodFailed, fmt.Sprintf("pod %s ended with exit code %d and no result (%s %s)", pod.Name, ended.ExitCode, pod.Status.Reason, ended.Reason))
	}
	return failed(PodFailed, fmt.Sprintf("pod %s ended without a result (%s): %s", pod.Name, pod.Status.Reason, pod.Status.Message))
}

// madeFor reads what the spec said when the pod was created.
func madeFor(pod *corev1.Pod) MadeFor {
	return MadeFor{Cluster: pod.Labels[BackupOfLabel], Claim: claimOf(pod, backupVolume)}
}

// counts reports whether the last verified backup is of the cluster and on the claim of the spec.
func (b Backup) counts(status etcdv1beta2.EtcdBackupStatus) bool {
	cluster, claim := b.ClusterNames().Cluster, b.ClaimName()
	return cmp.Or(status.EtcdClusterName, cluster) == cluster && cmp.Or(status.ClaimName, claim) == claim
}

func failed(reason Reason, message string) contract.BackupResult {
	return contract.BackupResult{Failure: contract.BackupFailure(reason), Message: message}
}

// due is when the next backup is to be made; zero when none. What the status has in the future is of a clock that was
// set back, and counts as now.
func (b Backup) due(now time.Time) time.Time {
	past := func(at time.Time) time.Time {
		if at.After(now) {
			return now
		}
		return at
	}
	due := now
	if last := b.Status.LastSuccessDate; last != nil && b.counts(b.Status) {
		if b.Interval() == 0 {
			return time.Time{}
		}
		due = past(last.Time).Add(b.Interval())
	}
	if failure := b.Status.LastFailureDate; failure != nil {
		if retry := past(failure.Time).Add(backupRetry); retry.After(due) {
			due = retry
		}
	}
	return due
}
