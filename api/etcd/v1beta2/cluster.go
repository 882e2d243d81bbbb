package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdCluster is an etcd cluster. Its members make their keys themselves, in their pods, and the operator signs
// their certificates.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdclusters,singular=etcdcluster,shortName=etcd,scope=Namespaced
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="The desired number of members"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.currentVersion`,description="The version that the members run"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The phase of the cluster"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the cluster is as its spec says"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 45",message="metadata.name must have at most 45 characters because names of Services, pods and certificates are made of it",fieldPath=.metadata,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.spec.restore) || !has(self.spec.restore.volume) || !self.spec.restore.volume.claimName.matches('^data-.+-[0-9]+$') || self.spec.restore.volume.claimName.substring(5, self.spec.restore.volume.claimName.lastIndexOf('-')) != self.metadata.name",message="restore.volume.claimName must not be the claim of a member of this EtcdCluster because that is the volume to restore into: create the EtcdCluster under another name",fieldPath=.spec.restore,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must hold only lower-case letters, digits and '-', and must start with a letter, because names of Services are made of it",fieldPath=.metadata,reason=FieldValueInvalid
type EtcdCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the cluster as it should be.
	// +required
	Spec EtcdClusterSpec `json:"spec,omitzero"`
	// status is the cluster as the operator last saw it.
	// +optional
	Status EtcdClusterStatus `json:"status,omitzero"`
}

// EtcdClusterList is a list of EtcdCluster.
//
// +kubebuilder:object:root=true
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []EtcdCluster `json:"items"`
}

// EtcdClusterSpec is the cluster as it should be.
//
// +kubebuilder:validation:XValidation:rule="(has(self.pod) && has(self.pod.ephemeral) && self.pod.ephemeral) == (has(oldSelf.pod) && has(oldSelf.pod.ephemeral) && oldSelf.pod.ephemeral)",message="pod.ephemeral must stay as it is because members keep their data where they were created with it: create another EtcdCluster",fieldPath=.pod,reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="(has(self.TLS) && has(self.TLS.static)) == (has(oldSelf.TLS) && has(oldSelf.TLS.static)) && (has(self.TLS) && has(self.TLS.insecure) && self.TLS.insecure) == (has(oldSelf.TLS) && has(oldSelf.TLS.insecure) && oldSelf.TLS.insecure)",message="TLS must stay dynamic, static or insecure because members of two kinds cannot talk to each other: create another EtcdCluster",fieldPath=.TLS,reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.restore) || has(oldSelf.restore) && self.restore == oldSelf.restore",message="restore must not be added or changed because it counts when the first member is created: create another EtcdCluster",fieldPath=.restore,reason=FieldValueForbidden
type EtcdClusterSpec struct {
	// size is the number of members. An even one tolerates no more losses than the odd one below it.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=7
	Size int32 `json:"size,omitempty"`
	// repository of the image of etcd. Its tag is v and the version. Unset means that of the operator.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Repository string `json:"repository,omitempty"`
	// version of etcd, for example 3.6.16.
	// +optional
	// +kubebuilder:default="3.6.16"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`
	Version string `json:"version,omitempty"`
	// paused makes the operator change no member. Certificates are still issued.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// pod says what the pods of the members have besides what the operator gives them.
	// +optional
	Pod *PodPolicy `json:"pod,omitempty"`
	// clientPeers are those who may connect to the client port, where the network enforces policies. Unset or empty
	// lets all clients connect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:XValidation:rule="has(self.podSelector) || has(self.namespaceSelector) || has(self.ipBlock)",message="a peer must have a podSelector, a namespaceSelector or an ipBlock because one without them names nothing",reason=FieldValueRequired
	// +kubebuilder:validation:items:XValidation:rule="!has(self.ipBlock) || !(has(self.podSelector) || has(self.namespaceSelector))",message="ipBlock must not be combined with selectors because Kubernetes takes no such policy: use a separate peer",fieldPath=.ipBlock,reason=FieldValueForbidden
	ClientPeers []networkingv1.NetworkPolicyPeer `json:"clientPeers,omitempty"`
	// TLS says where certificates come from. Unset means dynamic.
	// +optional
	TLS *TLSPolicy `json:"TLS,omitempty"`
	// restore begins the cluster with the data of another one. It has no effect once the first member has joined.
	// +optional
	Restore *RestoreSource `json:"restore,omitempty"`
}

// RestoreSource is a file with the data of an etcd cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.backup) != has(self.volume)",message="exactly one of backup and volume must be set because a cluster begins with one file"
type RestoreSource struct {
	// backup is an EtcdBackup.
	// +optional
	Backup *RestoreBackup `json:"backup,omitempty"`
	// volume has a file that no EtcdBackup knows.
	// +optional
	Volume *RestoreVolume `json:"volume,omitempty"`
}

// RestoreBackup names an EtcdBackup.
type RestoreBackup struct {
	// name of the EtcdBackup, in the namespace of the EtcdCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// path of one of its files, below the volume. Unset means the last verified one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(part, part == '..')",message="path must be relative and must not contain '..' because the file is on the volume"
	Path string `json:"path,omitempty"`
}

// RestoreVolume names a file on the volume of a claim.
type RestoreVolume struct {
	// claimName is the PersistentVolumeClaim, in the namespace of the EtcdCluster. It is mounted read-only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName,omitempty"`
	// path of the file below the volume: a snapshot, or the database of a member that does not run, such as
	// data/member/snap/db on the volume of a member.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(part, part == '..')",message="path must be relative and must not contain '..' because the file is on the volume"
	Path string `json:"path,omitempty"`
}

// PodPolicy says what the pods of the members have besides what the operator gives them. When it changes, pods are
// replaced one after the other.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.ephemeral) && self.ephemeral && has(self.persistentVolumeClaimSpec))",message="ephemeral must not be combined with persistentVolumeClaimSpec because an ephemeral member has no claim"
type PodPolicy struct {
	// labels of the pods. Those of the operator win.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the pods. Those of the operator win.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// nodeSelector restricts the nodes that pods run on.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// antiAffinity is the older form of affinity. It has no effect.
	// +optional
	AntiAffinity bool `json:"antiAffinity,omitempty"`
	// tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// resources of the container of etcd.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// securityContext of the pods. What it leaves out is as the restricted Pod Security Standard asks for.
	// +optional
	SecurityContext *corev1.PodSecurityContext `json:"securityContext,omitempty"`
	// etcdEnv holds variables of the container of etcd. Those that tune etcd or the Go
	// runtime have an effect, the others are named in a condition.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	EtcdEnv []corev1.EnvVar `json:"etcdEnv,omitempty"`
	// persistentVolumeClaimSpec of the volume of each member. Unset means 8Gi of the default storage class. A larger
	// storage request expands volumes that exist; other changes count for new ones.
	// +optional
	PersistentVolumeClaimSpec *corev1.PersistentVolumeClaimSpec `json:"persistentVolumeClaimSpec,omitempty"`
	// ephemeral keeps the data of a member in its pod. It is lost with the pod.
	// +optional
	Ephemeral bool `json:"ephemeral,omitempty"`
	// busyboxImage has no effect: no container of the pods needs it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	BusyboxImage string `json:"busyboxImage,omitempty"`
	// DNSTimeoutInSecond has no effect: members do not wait for DNS names.
	// +optional
	DNSTimeoutInSecond int64 `json:"DNSTimeoutInSecond,omitempty"`
	// ClusterDomain has no effect: it is an option of the operator.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterDomain string `json:"ClusterDomain,omitempty"`
}

// TLSPolicy says where certificates come from.
//
// +kubebuilder:validation:XValidation:rule="[has(self.static), has(self.dynamic), has(self.insecure) && self.insecure].filter(each, each).size() <= 1",message="static, dynamic and insecure must not be combined because a cluster has certificates of one source"
type TLSPolicy struct {
	// static takes certificates and keys from Secrets.
	// +optional
	Static *StaticTLS `json:"static,omitempty"`
	// dynamic has the operator sign the certificates of keys that never leave their pods.
	// +optional
	Dynamic *DynamicTLS `json:"dynamic,omitempty"`
	// insecure has members and clients talk without TLS. Everyone who reaches a member may read and write all data.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}

// StaticTLS names Secrets with certificates and keys, in the namespace of the cluster.
type StaticTLS struct {
	// member holds the Secrets of the members.
	// +required
	Member MemberSecrets `json:"member,omitzero"`
	// operatorSecret has the certificate by which the operator is a client of the cluster, in etcd-client.crt, its key
	// in etcd-client.key, and the CAs of the members in etcd-client-ca.crt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	OperatorSecret string `json:"operatorSecret,omitempty"`
}

// MemberSecrets names the Secrets of the members.
type MemberSecrets struct {
	// peerSecret has the certificate that members present to each other, in peer.crt, its key in peer.key, and the CAs
	// that they trust in peer-ca.crt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PeerSecret string `json:"peerSecret,omitempty"`
	// serverSecret has the certificate that members present to clients, in server.crt, its key in server.key, and the
	// CAs of the clients in server-ca.crt.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServerSecret string `json:"serverSecret,omitempty"`
}

// KeyAlgorithm is an algorithm of keys.
//
// +kubebuilder:validation:Enum=ECDSA;RSA
type KeyAlgorithm string

// The algorithms of keys.
const (
	// ECDSA keys are those of the curve P-256, of a CA P-384.
	ECDSA KeyAlgorithm = "ECDSA"
	// RSA keys have 2048 bits, of a CA 4096.
	RSA KeyAlgorithm = "RSA"
)

// Attestation says how the operator knows that a request in the annotations of a pod is of that pod.
//
// +kubebuilder:validation:Enum=Policy;Annotation
type Attestation string

// The kinds of attestation.
const (
	// AttestationPolicy signs requests only while an admission policy lets none but the pod itself write them.
	AttestationPolicy Attestation = "Policy"
	// AttestationAnnotation signs requests also without that policy: those of every process that may change annotations of the pod.
	AttestationAnnotation Attestation = "Annotation"
)

// DynamicTLS says how the operator makes CAs and signs certificates.
//
// +kubebuilder:validation:XValidation:rule="[has(self.clientCA) ? self.clientCA.validity : '43800h', has(self.peerCA) ? self.peerCA.validity : '43800h'].all(ca, duration(has(self.leaf) ? self.leaf.validity : '720h') + duration(has(self.leaf) ? self.leaf.validity : '720h') + duration(has(self.leaf) ? self.leaf.validity : '720h') < duration(ca))",message="leaf.validity must be less than a third of clientCA.validity and of peerCA.validity because certificates must be renewable long before their CA expires"
type DynamicTLS struct {
	// clientCA signs the certificates that members present to clients, and those of clients.
	// +optional
	ClientCA *CertificateLife `json:"clientCA,omitempty"`
	// peerCA signs the certificates that members present to each other.
	// +optional
	PeerCA *CertificateLife `json:"peerCA,omitempty"`
	// leaf is a certificate of a member or of a client.
	// +optional
	Leaf *LeafLife `json:"leaf,omitempty"`
	// keyAlgorithm of CAs and members. Unset means ECDSA.
	// +optional
	KeyAlgorithm KeyAlgorithm `json:"keyAlgorithm,omitempty"`
	// attestation says how the operator knows that a request is of the pod that it is in. Policy, which unset means, signs
	// requests only while the admission policy of the chart is in force, by which only the pod itself writes them.
	// Annotation signs every request, and one request may ask for the certificates of both ports.
	// +optional
	Attestation Attestation `json:"attestation,omitempty"`
}

// CertificateLife says how long a CA is valid.
type CertificateLife struct {
	// validity in hours, minutes and seconds, for example 43800h, which is the default.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=21
	Validity metav1.Duration `json:"validity,omitzero"`
}

// LeafLife says how long a certificate of a member or of a client is valid. It is renewed after two thirds of that.
//
// +kubebuilder:validation:XValidation:rule="duration(self.validity) >= duration('10m')",message="validity must be at least 10m because renewal needs time",fieldPath=.validity
type LeafLife struct {
	// validity in hours, minutes and seconds, for example 720h, which is the default.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$`
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=21
	Validity metav1.Duration `json:"validity,omitzero"`
}
