package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacac "k8s.io/client-go/applyconfigurations/rbac/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// BackupOfLabel of the pod of a backup is the name of its EtcdCluster. It has no ClusterLabel: no Service and no policy
// for members selects it.
const BackupOfLabel = "keyturn.dev/etcd-backup-of"

const (
	backupApp       = "etcd-backup"
	backupSuffix    = "-backup"
	backupContainer = "backup"
	backupVolume    = "backup"

	defaultBackupTimeout = 600 * time.Second
	// backupSlack is what the certificate of a backup is valid for beyond the time that it may take.
	backupSlack = 10 * time.Minute
)

// Backup is an EtcdBackup of a cluster.
type Backup struct {
	*etcdv1beta2.EtcdBackup
}

// PodName is the name of the pod, of its Secret, and of its account with role and binding. No member has such a name.
func (b Backup) PodName() string { return b.Name + backupSuffix }

// ClusterNames are those of its cluster.
func (b Backup) ClusterNames() Names {
	names := Names{Namespace: b.Namespace}
	if cluster := b.Spec.EtcdCluster; cluster != nil {
		names.Cluster = cluster.Name
	}
	return names
}

// User is what etcd knows the backups of a cluster by.
func (b Backup) User() string { return b.ClusterNames().Cluster + backupSuffix }

// ClaimName is the claim that receives the backups.
func (b Backup) ClaimName() string {
	if volume := b.Spec.Volume; volume != nil {
		return volume.ClaimName
	}
	return ""
}

func (b Backup) policy() etcdv1beta2.BackupPolicy {
	if policy := b.Spec.BackupPolicy; policy != nil {
		return *policy
	}
	return etcdv1beta2.BackupPolicy{}
}

// Interval is the time from one backup to the next, and 0 if only one is made.
func (b Backup) Interval() time.Duration {
	return time.Duration(b.policy().BackupIntervalInSecond) * time.Second
}

func (b Backup) timeout() time.Duration {
	if seconds := b.policy().TimeoutInSecond; seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return defaultBackupTimeout
}

// Validity is that of its certificate, which is not renewed. The ledger has room for those of frequent backups, because
// they expire soon.
func (b Backup) Validity(cluster Cluster) time.Duration {
	return min(cluster.TLS.LeafValidity, b.timeout()+backupSlack)
}

// IsOwned reports whether the EtcdBackup controls an object.
func (b Backup) IsOwned(object metav1.Object) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == b.UID
}

// IsOrphan reports whether an object is of an EtcdBackup of this name that was deleted without it.
func (b Backup) IsOrphan(object metav1.Object) bool {
	labels := object.GetLabels()
	return metav1.GetControllerOf(object) == nil && labels[ManagedByLabel] == Manager && labels[BackupOfLabel] != "" &&
		labels["app.kubernetes.io/instance"] == b.Name
}

// Owner makes objects go with the EtcdBackup.
func (b Backup) Owner() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: etcdv1beta2.GroupVersion.String(), Kind: etcdv1beta2.KindEtcdBackup,
		Name: b.Name, UID: b.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// Labels are those of its objects.
func (b Backup) Labels() map[string]string {
	labels := backupSelector(b.ClusterNames().Cluster)
	labels["app.kubernetes.io/name"] = backupApp
	labels["app.kubernetes.io/instance"] = b.Name
	return labels
}

// backupSelector selects the pods of all backups of a cluster. The admission policy keeps others from making such pods.
func backupSelector(cluster string) map[string]string {
	return map[string]string{AppLabel: backupApp, BackupOfLabel: cluster, ManagedByLabel: Manager}
}

// Account is the identity of the pod: it may read and change its own pod and nothing else.
func (b Backup) Account() []Object {
	name, labels, owner := b.PodName(), b.Labels(), b.Owner()
	reference := metaac.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
		WithName(owner.Name).WithUID(owner.UID).WithController(true).WithBlockOwnerDeletion(true)
	account := coreac.ServiceAccount(name, b.Namespace).WithLabels(labels).WithOwnerReferences(reference).
		WithAutomountServiceAccountToken(false)
	role := rbacac.Role(name, b.Namespace).WithLabels(labels).WithOwnerReferences(reference).
		WithRules(ruleIntents(PodRules(name))...)
	binding := rbacac.RoleBinding(name, b.Namespace).WithLabels(labels).WithOwnerReferences(reference).
		WithRoleRef(rbacac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(name)).
		WithSubjects(rbacac.Subject().WithKind(rbacv1.ServiceAccountKind).WithName(name).WithNamespace(b.Namespace))
	return []Object{
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), name, account},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), name, role},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), name, binding},
	}
}

// Pod is the pod that makes one backup. Pin is the encoded publication.Publication that it is created under.
func (b Backup) Pod(cluster Cluster, pin string) *corev1.Pod {
	name := b.PodName()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: name, Labels: maps.Clone(b.Labels()), OwnerReferences: []metav1.OwnerReference{b.Owner()},
			Annotations: map[string]string{agent.PinAnnotation: pin},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            name,
			AutomountServiceAccountToken:  new(true),
			EnableServiceLinks:            new(false),
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(b.timeout() / time.Second)),
			TerminationGracePeriodSeconds: new(int64(graceSeconds)),
			ImagePullSecrets:              slices.Clone(cluster.settings.PullSecrets),
			SecurityContext:               cluster.podSecurity(),
			NodeSelector:                  cluster.pod.NodeSelector,
			Tolerations:                   cluster.pod.Tolerations,
			Containers:                    []corev1.Container{b.container(cluster)},
			Volumes:                       b.volumes(cluster),
		},
	}
}

func (b Backup) container(cluster Cluster) corev1.Container {
	return corev1.Container{
		Name:            backupContainer,
		Image:           cluster.settings.AgentImage,
		ImagePullPolicy: cluster.settings.PullPolicy,
		Command: []string{
			agent.ImageBinaryPath, "etcd-backup", "--key-algorithm=" + string(cluster.TLS.Algorithm),
			"--url=" + cluster.Names.clientEndpoint(), "--cluster=" + cluster.Names.Cluster, "--cluster-uid=" + string(cluster.UID),
			"--backup=" + b.Name, "--keep=" + strconv.FormatInt(b.policy().MaxBackups, 10),
		},
		Env:             cluster.environment(cluster.Version),
		SecurityContext: containerSecurity(),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: runVolume, MountPath: agent.RunDir},
			{Name: nodeVolume, MountPath: agent.NodeDir, ReadOnly: true},
			{Name: podVolume, MountPath: agent.PodDir, ReadOnly: true},
			{Name: backupVolume, MountPath: contract.BackupDir},
		},
	}
}

// volumes are those of a member, with the claim of the backups in place of etcd's data.
func (b Backup) volumes(cluster Cluster) []corev1.Volume {
	volumes := slices.DeleteFunc(cluster.volumes(b.PodName()), func(volume corev1.Volume) bool {
		return volume.Name == agentVolume || volume.Name == dataVolume
	})
	return append(volumes, corev1.Volume{Name: backupVolume, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: b.ClaimName()},
	}})
}

// Check says what is wrong with the EtcdBackup whatever cluster there is; nil when nothing is.
func (b Backup) Check() *Problem {
	switch {
	case b.Spec.StorageType == etcdv1beta2.StorageVolume && !isName(b.ClusterNames().Cluster):
		return WithoutCluster(b.ClusterNames())
	case b.Spec.StorageType == etcdv1beta2.StorageVolume && !isName(b.ClaimName()):
		return b.WithoutClaim()
	case b.Spec.StorageType == etcdv1beta2.StorageVolume:
		return nil
	}
	return &Problem{NotSupported, fmt.Sprintf(
		"spec.storageType %s is not supported. No backup is made. Set spec.storageType to Volume, spec.volume.claimName to a PersistentVolumeClaim, and spec.etcdCluster.name to the EtcdCluster.", b.Spec.StorageType)}
}

// WithoutOwnClients is a cluster whose clients the operator does not certify.
func (b Backup) WithoutOwnClients(cluster Names) *Problem {
	return &Problem{NotSupported, fmt.Sprintf(
		"The operator has no CA of EtcdCluster %s, because of spec.TLS.%s. No backup is made. Save a snapshot with etcdctl and a certificate that the cluster accepts.",
		cluster.NamespacedName(), strings.ToLower(string(cluster.Mode)))}
}
