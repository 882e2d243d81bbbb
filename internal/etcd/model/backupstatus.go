package model

import (
	"fmt"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// BackupSeen is what has become of an EtcdBackup in a reconcile.
type BackupSeen struct {
	// Started is the UID of a pod that was created, Result what came of the recorded one; nil when nothing did.
	Started types.UID
	Result  *contract.BackupResult
	// Made is what the recorded pod was for.
	Made MadeFor
	// Problem keeps a backup from being made; nil when nothing does.
	Problem *Problem
	Now     time.Time
}

// Next is what the status shall be.
func (b Backup) Next(seen BackupSeen) etcdv1beta2.EtcdBackupStatus {
	status := *b.Status.DeepCopy()
	status.ObservedGeneration = b.Generation
	if seen.Started != "" {
		status.PodUID = seen.Started
	}
	if seen.Result != nil {
		status.PodUID = ""
		b.record(&status, seen, metav1.NewTime(seen.Now.UTC().Truncate(time.Second)))
	}
	ready := b.ready(status, seen)
	ready.ObservedGeneration = b.Generation
	status.Conditions = kstatus.Standard([]metav1.Condition{ready}, b.Status.Conditions, seen.Now)
	return status
}

func (b Backup) record(status *etcdv1beta2.EtcdBackupStatus, seen BackupSeen, now metav1.Time) {
	result := *seen.Result
	if result.Failure != "" {
		status.Succeeded, status.Failure, status.LastFailureDate = false, excerpt.Of(string(result.Failure), excerpt.Value), &now
		status.Reason = b.explain(result, now.Add(backupRetry))
		return
	}
	status.Succeeded, status.Reason, status.Failure, status.LastFailureDate = true, "", "", nil
	status.LastSuccessDate = &now
	status.EtcdClusterName, status.ClaimName = seen.Made.Cluster, seen.Made.Claim
	status.EtcdVersion, status.EtcdRevision = excerpt.Of(result.Version, excerpt.Value), result.Revision
	status.Path, status.Size, status.SHA256 = excerpt.Of(result.Path, excerpt.Foreign), result.Size, excerpt.Of(result.SHA256, excerpt.Value)
}

// explain says what a failure means and what to do.
func (b Backup) explain(result contract.BackupResult, next time.Time) string {
	cause := excerpt.Of(result.Message, excerpt.Foreign)
	problem, remedy := "The backup failed: "+cause, "See the events of pod "+b.PodName()
	switch result.Failure {
	case contract.SnapshotDenied:
		problem = fmt.Sprintf("Authentication of etcd is on, and user %s may not take snapshots", b.User())
		remedy = fmt.Sprintf("Run etcdctl user add %s --no-password, and etcdctl user grant-role %s root", b.User(), b.User())
	case contract.SnapshotFailed:
		problem = "The cluster has not given its data: " + cause
		remedy = "See the conditions of EtcdCluster " + b.ClusterNames().Cluster
	case contract.SnapshotNotVerified:
		problem = "The copy was not verified, and it was removed: " + cause
		remedy = "See the logs of the members, and check the volume"
	case contract.VolumeNotWritable:
		problem = "The copy cannot be stored: " + cause
		remedy = fmt.Sprintf("Make space on the volume of claim %s, and let the user of the pod write to it", b.ClaimName())
	case contract.BackupFailure(PodFailed):
		remedy = "Raise spec.backupPolicy.timeoutInSecond if the reason is DeadlineExceeded"
	}
	return fmt.Sprintf("%s. Earlier backups are kept, and the next one is tried at %s. %s.", problem, stamp(next), remedy)
}

func (b Backup) ready(status etcdv1beta2.EtcdBackupStatus, seen BackupSeen) metav1.Condition {
	const kind = etcdv1beta2.ConditionReady
	switch {
	case seen.Problem != nil:
		return newCondition(kind, metav1.ConditionFalse, seen.Problem.Reason, seen.Problem.Message)
	case status.Succeeded && b.counts(status):
		return newCondition(kind, metav1.ConditionTrue, BackupSucceeded, fmt.Sprintf(
			"%s on claim %s is verified. It has revision %d.", status.Path, b.ClaimName(), status.EtcdRevision))
	case status.PodUID != "":
		return newCondition(kind, metav1.ConditionFalse, BackupRunning, fmt.Sprintf("Pod %s makes a backup.", b.PodName()))
	case status.Failure != "":
		return newCondition(kind, metav1.ConditionFalse, Reason(status.Failure), status.Reason)
	case status.Succeeded:
		return newCondition(kind, metav1.ConditionFalse, BackupRunning, "A backup of this cluster to this claim is due.")
	default:
		if before := apimeta.FindStatusCondition(b.Status.Conditions, kind); before != nil {
			return *before
		}
		return newCondition(kind, metav1.ConditionFalse, BackupRunning, "A backup is due.")
	}
}

// WithoutCluster is an EtcdBackup of a cluster that is not there.
func WithoutCluster(cluster Names) *Problem {
	return &Problem{ClusterNotFound, fmt.Sprintf("EtcdCluster %s does not exist in namespace %s. No backup is made. Create it, or correct spec.etcdCluster.name.",
		excerpt.Of(cluster.Cluster, excerpt.Foreign), cluster.Namespace)}
}

// WithoutQuorum is an EtcdBackup of a cluster that cannot say what it has agreed on.
func WithoutQuorum(cluster Names) *Problem {
	return &Problem{NoQuorum, fmt.Sprintf("EtcdCluster %s has no quorum of ready members. No backup is made until it has, and earlier ones are kept. See the conditions of the EtcdCluster.", cluster.Cluster)}
}

// WithoutClaim is an EtcdBackup to a volume that is not there.
func (b Backup) WithoutClaim() *Problem {
	return &Problem{ClaimNotFound, fmt.Sprintf("PersistentVolumeClaim %s does not exist in namespace %s. No backup is made. Create the claim, or correct spec.volume.claimName.", b.ClaimName(), b.Namespace)}
}

// kafkaLabel is on the claims of Kafka nodes.
const kafkaLabel = "strimzi.io/cluster"

// CheckClaim says why the claim cannot receive backups, of which the pod could write to the data of a server; nil when it can. Claim is
// nil when there is none, and clusters are the names of all EtcdClusters of the namespace.
func (b Backup) CheckClaim(claim metav1.Object, clusters []string) *Problem {
	for _, cluster := range clusters {
		names := Names{Namespace: b.Namespace, Cluster: cluster}
		if member, is := strings.CutPrefix(b.ClaimName(), names.Claim("")); is && names.isMember(member) {
			return b.claimInUse("EtcdCluster " + cluster)
		}
	}
	if claim == nil {
		return b.WithoutClaim()
	}
	labels, controller := claim.GetLabels(), metav1.GetControllerOf(claim)
	switch {
	case controller != nil:
		return b.claimInUse(excerpt.Of(controller.Kind+" "+controller.Name, excerpt.Foreign))
	case labels[ManagedByLabel] == Manager:
		return b.claimInUse("EtcdCluster " + labels[ClusterLabel])
	case labels[kafkaLabel] != "":
		return b.claimInUse("Kafka " + labels[kafkaLabel])
	default:
		return nil
	}
}

func (b Backup) claimInUse(holder string) *Problem {
	return &Problem{ClaimInUse, fmt.Sprintf("PersistentVolumeClaim %s is for the data of %s. It is not mounted, and no backup is made. Create another claim, and set spec.volume.claimName to its name.", b.ClaimName(), holder)}
}

// Held is a backup whose pod gets no certificate for now.
func (b Backup) Held(cause, detail string) *Problem {
	return &Problem{Reason(cause), fmt.Sprintf("The request of pod %s is not signed for now: %s. The backup waits until its timeout. See the conditions of EtcdCluster %s.",
		b.PodName(), detail, b.ClusterNames().Cluster)}
}

// Denied is a backup whose pod gets no certificate.
func (b Backup) Denied(cause, detail string) *Problem {
	return &Problem{RequestDenied, fmt.Sprintf("The request of pod %s is denied (%s): %s. No backup is made with it. Delete the pod to have another one made.",
		b.PodName(), cause, excerpt.Of(detail, excerpt.Foreign))}
}

// Foreign is an object in the way.
func (b Backup) Foreign(kind, name string) *Problem {
	return &Problem{ForeignObject, fmt.Sprintf("%s %s is not owned by this EtcdBackup. It is not changed, and no backup is made. Delete it, or create an EtcdBackup of another name.", kind, name)}
}
