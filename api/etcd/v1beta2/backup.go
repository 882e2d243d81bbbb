package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// EtcdBackup copies the data of an EtcdCluster to a volume, once or again and again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdbackups,singular=etcdbackup,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.etcdCluster.name`,description="The EtcdCluster"
// +kubebuilder:printcolumn:name="Last success",type=date,JSONPath=`.status.lastSuccessDate`,description="When the last backup was verified"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.etcdRevision`,description="Its revision"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the last backup is verified"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 55",message="metadata.name must have at most 55 characters because the name of its pod is made of it",fieldPath=.metadata,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name must not have a dot because labels and paths are made of it",fieldPath=.metadata,reason=FieldValueInvalid
type EtcdBackup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is copied where, and when.
	// +required
	Spec EtcdBackupSpec `json:"spec,omitzero"`
	// status is about the last backup.
	// +optional
	Status EtcdBackupStatus `json:"status,omitzero"`
}

// EtcdBackupList is a list of EtcdBackup.
//
// +kubebuilder:object:root=true
type EtcdBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []EtcdBackup `json:"items"`
}

// StorageType says where backups are stored.
//
// +kubebuilder:validation:Enum=Volume;S3;ABS;GCS;OSS
type StorageType string

// StorageVolume stores backups on a volume. All others are refused with a condition.
const StorageVolume StorageType = "Volume"

// EtcdBackupSpec says what is copied where, and when.
//
// +kubebuilder:validation:XValidation:rule="has(self.volume) == (self.storageType == 'Volume')",message="volume must be set if storageType is Volume, and only then, because it names where the backups are stored",fieldPath=.volume
// +kubebuilder:validation:XValidation:rule="has(self.etcdCluster) || self.storageType != 'Volume'",message="etcdCluster must be set because its CA signs the certificate of the backup",fieldPath=.etcdCluster
type EtcdBackupSpec struct {
	// etcdCluster is the EtcdCluster, in the namespace of the EtcdBackup.
	// +optional
	EtcdCluster *ClusterReference `json:"etcdCluster,omitempty"`
	// storageType is Volume. S3, ABS, GCS and OSS are not supported.
	// +required
	StorageType StorageType `json:"storageType,omitempty"`
	// volume stores the backups if storageType is Volume.
	// +optional
	Volume *VolumeStorage `json:"volume,omitempty"`
	// backupPolicy says when backups are made and how many are kept. Unset means once.
	// +optional
	BackupPolicy *BackupPolicy `json:"backupPolicy,omitempty"`
	// etcdEndpoints has no effect: the EtcdCluster has them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	EtcdEndpoints []string `json:"etcdEndpoints,omitempty"`
	// clientTLSSecret has no effect: the operator signs the certificate of the backup for a key that is made in its pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClientTLSSecret string `json:"clientTLSSecret,omitempty"`
	// s3 is not supported.
	// +optional
	S3 *ObjectStorage `json:"s3,omitempty"`
	// abs is not supported.
	// +optional
	ABS *ObjectStorage `json:"abs,omitempty"`
	// gcs is not supported.
	// +optional
	GCS *ObjectStorage `json:"gcs,omitempty"`
	// oss is not supported.
	// +optional
	OSS *ObjectStorage `json:"oss,omitempty"`
}

// ClusterReference names an EtcdCluster.
type ClusterReference struct {
	// name of the EtcdCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// VolumeStorage names a claim.
type VolumeStorage struct {
	// claimName is the PersistentVolumeClaim, in the namespace of the EtcdBackup. Backups are files in the directory
	// CLUSTER/EtcdBackup of its volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
}

// ObjectStorage is a store of the public operator. It is read so that its manifests get a condition and no error.
type ObjectStorage struct {
	// path in the store.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
	// endpoint of the store.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Endpoint string `json:"endpoint,omitempty"`
	// awsSecret has credentials of S3.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AWSSecret string `json:"awsSecret,omitempty"`
	// absSecret has credentials of ABS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ABSSecret string `json:"absSecret,omitempty"`
	// gcpSecret has credentials of GCS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GCPSecret string `json:"gcpSecret,omitempty"`
	// ossSecret has credentials of OSS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	OSSSecret string `json:"ossSecret,omitempty"`
	// forcePathStyle is an option of S3.
	// +optional
	ForcePathStyle bool `json:"forcePathStyle,omitempty"`
}

// BackupPolicy says when backups are made and how many are kept.
type BackupPolicy struct {
	// backupIntervalInSecond is the time from one backup to the next. 0, which is the default, makes one backup.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 60",message="backupIntervalInSecond must be 0 or at least 60 because a backup needs time"
	BackupIntervalInSecond int64 `json:"backupIntervalInSecond,omitempty"`
	// maxBackups is how many backups of this EtcdBackup are kept. 0, which is the default, keeps all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxBackups int64 `json:"maxBackups,omitempty"`
	// timeoutInSecond is how long a backup may take once its pod is on a node. Unset means 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutInSecond int64 `json:"timeoutInSecond,omitempty"`
}

// EtcdBackupStatus is about the last backup.
type EtcdBackupStatus struct {
	// succeeded is true when the last backup was verified.
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`
	// Reason says why the last backup failed.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Reason string `json:"Reason,omitempty"`
	// etcdVersion is that of the member that the last verified backup is of.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// etcdRevision is the revision of the last verified backup.
	// +optional
	EtcdRevision int64 `json:"etcdRevision,omitempty"`
	// lastSuccessDate is when the last backup was verified.
	// +optional
	LastSuccessDate *metav1.Time `json:"lastSuccessDate,omitempty"`
	// etcdClusterName is the cluster that the last verified backup is of.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	EtcdClusterName string `json:"etcdClusterName,omitempty"`
	// claimName is the claim that has the last verified backup.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// path of the last verified backup on the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
	// size of it in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`
	// sha256 of the file, in hex.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
	// failure is the reason of Ready that the last backup failed for, since the last verified one.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Failure string `json:"failure,omitempty"`
	// lastFailureDate is when a backup has failed since the last verified one.
	// +optional
	LastFailureDate *metav1.Time `json:"lastFailureDate,omitempty"`
	// podUID is the UID of the pod that makes a backup now. Requests of other pods are not signed.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, which is True when the last backup was verified, and nothing keeps the next one from being made; Reconciling or
	// Stalled while it is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
