package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClusterPhase is how far a cluster has come.
//
// +kubebuilder:validation:Enum=Creating;Running;Failed
type ClusterPhase string

// The phases.
const (
	// PhaseCreating lasts until the cluster is available for the first time.
	PhaseCreating ClusterPhase = "Creating"
	// PhaseRunning lasts from then on.
	PhaseRunning ClusterPhase = "Running"
	// PhaseFailed is a spec that cannot be acted on; reason says why.
	PhaseFailed ClusterPhase = "Failed"
)

// Types of conditions.
const (
	// ConditionReady is True when all members are as the spec says.
	ConditionReady = "Ready"
	// ConditionAvailable is True when a quorum of members is ready.
	ConditionAvailable = "Available"
	// ConditionPKIReady is True when the cluster has its CAs.
	ConditionPKIReady = "PKIReady"
	// ConditionFieldsIgnored is True while the spec has fields without effect.
	ConditionFieldsIgnored = "FieldsIgnored"
	// ConditionVolumesDiffer is True while volumes of members are not as the spec says.
	ConditionVolumesDiffer = "VolumesDiffer"
	// ConditionAttestationEnforced is True while only the pod of a member can change its requests for certificates. A
	// cluster that asks for no attestation does not have it.
	ConditionAttestationEnforced = "AttestationEnforced"
	// ConditionEtcdHealthy is True while etcd has no alarm and its database is below four fifths of its quota. It is there
	// once members have been asked.
	ConditionEtcdHealthy = "EtcdHealthy"
	// ConditionCertificatesLoaded is True while the agents of members report that etcd presents the certificates that were
	// issued to them. It is there once all have been polled, and not in a cluster without certificates of the operator.
	ConditionCertificatesLoaded = "CertificatesLoaded"
	// ConditionRotatingCAs is True while members know more than one CA of a plane, which is being renewed or replaced. The
	// message says what that waits for.
	ConditionRotatingCAs = "RotatingCAs"
	// ConditionWarning is True while the spec asks for something that is dangerous.
	ConditionWarning = "Warning"
	// ConditionWatchDenied is True while changes are not noticed, because the API server denies a watch to the operator.
	ConditionWatchDenied = "WatchDenied"
)

// MemberRole is what a member may do.
//
// +kubebuilder:validation:Enum=voter;learner
type MemberRole string

// The roles of members.
const (
	// RoleVoter takes part in decisions.
	RoleVoter MemberRole = "voter"
	// RoleLearner receives data and does not count for the quorum.
	RoleLearner MemberRole = "learner"
)

// EtcdClusterStatus is the cluster as the operator last saw it.
type EtcdClusterStatus struct {
	// phase is how far the cluster has come.
	// +optional
	Phase ClusterPhase `json:"phase,omitempty"`
	// reason says why the phase is Failed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// controlPaused is true while the operator changes no member.
	// +optional
	ControlPaused bool `json:"controlPaused,omitempty"`
	// conditions: Ready and Available, PKIReady once it is known, AttestationEnforced unless TLS.dynamic.attestation is
	// Annotation, CertificatesLoaded once members report it, and FieldsIgnored, VolumesDiffer, WatchDenied and Warning when there is something to say. Reconciling or Stalled
	// while the cluster is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// size is the number of members that the cluster has.
	// +optional
	Size int32 `json:"size,omitempty"`
	// serviceName is the Service that clients connect to.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName,omitempty"`
	// clientPort is the port of that Service.
	// +optional
	ClientPort int32 `json:"clientPort,omitempty"`
	// members names the pods of members that are ready and of those that are not.
	// +optional
	Members MembersStatus `json:"members,omitzero"`
	// memberStatuses are the members, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	MemberStatuses []MemberStatus `json:"memberStatuses,omitempty"`
	// currentVersion is the version that all members run. It changes when all are ready with another one.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	CurrentVersion string `json:"currentVersion,omitempty"`
	// targetVersion is the version of the spec while currentVersion is another.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	TargetVersion string `json:"targetVersion,omitempty"`
	// restored is what the cluster began with, if that was restored.
	// +optional
	Restored *RestoredStatus `json:"restored,omitempty"`
}

// RestoredStatus is what a cluster began with.
type RestoredStatus struct {
	// claimName is the claim that has the file.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// path of the file on the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path,omitempty"`
	// revision of the data.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// date is when the operator saw that the data were restored.
	// +optional
	Date *metav1.Time `json:"date,omitempty"`
}

// MembersStatus names the pods of members that are ready and of those that are not.
type MembersStatus struct {
	// ready members serve clients.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Ready []string `json:"ready,omitempty"`
	// unready members do not serve clients.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Unready []string `json:"unready,omitempty"`
}

// MemberStatus is a member of the cluster.
type MemberStatus struct {
	// name of the member and of its pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// podUID is the UID of the pod that the operator created for the member. Requests of other pods are not signed.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// memberID is the id that etcd gave the member, in hex. It is set once the member has started.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	MemberID string `json:"memberID,omitempty"`
	// role is voter or learner. It is set once etcd knows the member.
	// +optional
	Role MemberRole `json:"role,omitempty"`
	// leaving is true once the operator has decided to remove the member from etcd. Only then its data is deleted.
	// +optional
	Leaving bool `json:"leaving,omitempty"`
	// version of etcd that the pod of the member is created with.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version,omitempty"`
	// restartingSince is when the operator decided to restart the member. It is set before that is done, so that no operator
	// restarts another one meanwhile.
	// +optional
	RestartingSince *metav1.Time `json:"restartingSince,omitempty"`
	// ready is true of a voter whose pod is ready.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// loaded is what the etcd of the member presents and trusts, as its agent reports it. It is absent while that is not
	// known, and while etcd does not run.
	// +optional
	// +listType=map
	// +listMapKey=plane
	// +kubebuilder:validation:MaxItems=2
	Loaded []LoadedPlane `json:"loaded,omitempty"`
}

// LoadedPlane is what the etcd of a member presents and trusts on one of its ports.
type LoadedPlane struct {
	// plane is peer or client.
	// +required
	// +kubebuilder:validation:Enum=peer;client
	Plane string `json:"plane,omitempty"`
	// presents is the SHA-256 fingerprint of its certificate, in lower-case hex.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Presents string `json:"presents,omitempty"`
	// notAfter is when that certificate expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// trusts are the SHA-256 fingerprints of the CAs whose certificates it accepts, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Trusts []string `json:"trusts,omitempty"`
}
