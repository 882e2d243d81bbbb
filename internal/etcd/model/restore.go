package model

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
)

const (
	restoreContainer = "keyturn-restore"
	restoreVolume    = "restore"
	// utility is etcdutl in the official images.
	utility = "/usr/local/bin/etcdutl"

	// Restored is the reason of the event of a cluster whose first member has got its data.
	Restored = "Restored"

	restoreMissing = Reason(contract.RestoreSourceMissing)
)

// RestoreFile is the file that a cluster begins with.
type RestoreFile struct {
	// Claim has the file, and Path leads to it.
	Claim, Path string
	// SHA256 of the file in hex; empty when it is not known.
	SHA256 string
}

// RestoreBackup is the name of the EtcdBackup that the cluster begins with; empty when it begins with none.
func (c Cluster) RestoreBackup() string {
	if c.Restore == nil || c.Restore.Backup == nil {
		return ""
	}
	return c.Restore.Backup.Name
}

// RestoreFile is the file that spec.restore leads to, by the EtcdBackup that it names; nil when that does not exist.
func (c Cluster) RestoreFile(backup *etcdv1beta2.EtcdBackup) (RestoreFile, *Problem) {
	if volume := c.Restore.Volume; volume != nil {
		return RestoreFile{Claim: volume.ClaimName, Path: volume.Path}, nil
	}
	wanted := c.Restore.Backup
	if backup == nil {
		return RestoreFile{}, c.withoutSource("EtcdBackup "+wanted.Name, "Create the EtcdBackup")
	}
	file := RestoreFile{Claim: cmp.Or(backup.Status.ClaimName, Backup{backup}.ClaimName()), Path: backup.Status.Path, SHA256: backup.Status.SHA256}
	if wanted.Path != "" {
		file.Path, file.SHA256 = wanted.Path, ""
	}
	if file.Path == "" || !isName(file.Claim) {
		return RestoreFile{}, &Problem{restoreMissing, fmt.Sprintf(
			"EtcdBackup %s has no verified file. The first member is not created until it has. See its conditions, or create another EtcdCluster with spec.restore.volume.", wanted.Name)}
	}
	return file, nil
}

// WithoutRestoreClaim is a cluster that begins with a file of a claim that is not there.
func (c Cluster) WithoutRestoreClaim(file RestoreFile) *Problem {
	return c.withoutSource("PersistentVolumeClaim "+excerpt.Of(file.Claim, excerpt.Foreign), "Create the claim of the volume with the file")
}

func (c Cluster) withoutSource(object, remedy string) *Problem {
	return &Problem{restoreMissing, fmt.Sprintf("%s of spec.restore does not exist in namespace %s. The first member is not created. %s, or create another EtcdCluster with another spec.restore.",
		object, c.Names.Namespace, remedy)}
}

// AddRestore has the pod of the first member restore a file before etcd starts. Where the volume has data, or the member
// has joined, the container does nothing.
func (c Cluster) AddRestore(pod *corev1.Pod, file RestoreFile) {
	peer := c.Names.PeerURL(pod.Name)
	container := corev1.Container{
		Name:            restoreContainer,
		Image:           pod.Spec.Containers[0].Image,
		ImagePullPolicy: c.settings.PullPolicy,
		Command: []string{
			agent.BinaryPath, "etcd-restore", "--path=" + file.Path, "--sha256=" + file.SHA256, "--",
			utility, "snapshot", "restore", "--name=" + pod.Name, "--initial-cluster=" + pod.Name + "=" + peer,
			"--initial-advertise-peer-urls=" + peer, "--initial-cluster-token=" + string(c.UID),
		},
		SecurityContext: containerSecurity(),
		Resources:       pod.Spec.Containers[0].Resources,
		VolumeMounts: []corev1.VolumeMount{
			{Name: agentVolume, MountPath: agentDir, ReadOnly: true},
			{Name: podVolume, MountPath: agent.PodDir, ReadOnly: true},
			{Name: dataVolume, MountPath: dataDir},
			{Name: restoreVolume, MountPath: contract.RestoreDir, ReadOnly: true},
		},
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: restoreVolume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: file.Claim},
	}})
}

// IsRestoring reports whether a pod was created to restore a file before etcd starts.
func IsRestoring(pod *corev1.Pod) bool { return claimOf(pod, restoreVolume) != "" }

// RestoreSeen says what the pod of the first member has reported of its restore: that it is done, or why it is not. Both
// are nil while it has reported nothing.
func (c Cluster) RestoreSeen(pod *corev1.Pod, now time.Time) (*etcdv1beta2.RestoredStatus, *Problem) {
	at := slices.IndexFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == restoreContainer })
	if at < 0 {
		return nil, nil
	}
	seen := &pod.Status.InitContainerStatuses[at]
	ended := cmp.Or(seen.State.Terminated, seen.LastTerminationState.Terminated) // it is tried again
	if ended == nil {
		return nil, nil
	}
	result, err := contract.ParseRestoreResult(ended.Message)
	switch {
	case ended.ExitCode == 0 && err == nil && result.Revision > 0:
		date := metav1.NewTime(now.UTC().Truncate(time.Second))
		return &etcdv1beta2.RestoredStatus{
			ClaimName: claimOf(pod, restoreVolume), Path: excerpt.Of(result.Path, excerpt.Foreign), Revision: result.Revision, Date: &date,
		}, nil
	case ended.ExitCode == 0:
		return nil, nil // there were data
	case err != nil || result.Failure == "":
		result = contract.RestoreResult{Failure: contract.RestoreFailed, Message: fmt.Sprintf("the container ended with exit code %d and no result (%s)", ended.ExitCode, ended.Reason)}
	}
	return nil, c.notRestored(pod, result)
}

// notRestored says what a failure means and what to do.
func (c Cluster) notRestored(pod *corev1.Pod, result contract.RestoreResult) *Problem {
	file := fmt.Sprintf("File %s of PersistentVolumeClaim %s", excerpt.Of(result.Path, excerpt.Foreign), claimOf(pod, restoreVolume))
	cause := excerpt.Of(result.Message, excerpt.Foreign)
	problem, remedy := fmt.Sprintf("%s is not restored: %s", file, cause), fmt.Sprintf("See the log of container %s of pod %s", restoreContainer, pod.Name)
	switch result.Failure {
	case contract.RestoreSourceMissing:
		problem, remedy = file+" does not exist", "Put the file there, or create another EtcdCluster with another spec.restore"
		if c.RestoreBackup() != "" && c.Restore.Backup.Path == "" {
			remedy = fmt.Sprintf("Delete pod %s to use the last verified file of EtcdBackup %s", pod.Name, c.RestoreBackup())
		}
	case contract.RestoreSourceInUse:
		problem = file + " is in use by a running etcd"
		remedy = "Stop that member: set spec.paused of its EtcdCluster to true, then delete its pod. Keep the EtcdCluster, which owns the volume"
	case contract.RestoreNotVerified:
		problem, remedy = fmt.Sprintf("%s is damaged, or is not the file that was backed up: %s", file, cause), "Create another EtcdCluster with another spec.restore"
	case contract.RestoreFailed:
	default:
		result.Failure = contract.RestoreFailed
	}
	return &Problem{Reason(result.Failure), fmt.Sprintf("%s. etcd is not started, and the restore is tried again. %s.", problem, remedy)}
}

// claimOf is the claim that a pod mounts as a volume.
func claimOf(pod *corev1.Pod, name string) string {
	for _, volume := range pod.Spec.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil && volume.Name == name {
			return claim.ClaimName
		}
	}
	return ""
}
