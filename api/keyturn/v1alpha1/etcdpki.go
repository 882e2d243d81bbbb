package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdPKI says who signs the two CAs of the etcd operator. There is one at most; without it they are self-signed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdpkis,singular=etcdpki,scope=Cluster
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Who signs the operator's CAs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the operator's CAs can sign those of clusters"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="metadata.name must be default because the operator reads no other EtcdPKI",fieldPath=.metadata,reason=FieldValueInvalid
type EtcdPKI struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says who signs.
	// +optional
	Spec EtcdPKISpec `json:"spec,omitzero"`
	// status has what is to be signed, and whether it is.
	// +optional
	Status EtcdPKIStatus `json:"status,omitzero"`
}

// EtcdPKIList is a list of EtcdPKI.
//
// +kubebuilder:object:root=true
type EtcdPKIList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []EtcdPKI `json:"items"`
}

// EtcdPKIName is the name of the only EtcdPKI.
const EtcdPKIName = "default"

// PKIMode says who signs the operator's CAs.
//
// +kubebuilder:validation:Enum=SelfSigned;Outside
type PKIMode string

// The modes.
const (
	// SelfSigned has the operator sign its CAs itself.
	SelfSigned PKIMode = "SelfSigned"
	// Outside has a PKI outside of Kubernetes sign them.
	Outside PKIMode = "Outside"
)

// EtcdPKISpec says who signs the operator's CAs.
type EtcdPKISpec struct {
	// mode is SelfSigned or Outside. With Outside, no cluster gets a CA before the operator's CAs are signed.
	// +optional
	// +kubebuilder:default=SelfSigned
	Mode PKIMode `json:"mode,omitempty"`
	// certificates are the answers to status.requests. They count with mode Outside.
	// +optional
	Certificates PKICertificates `json:"certificates,omitzero"`
}

// PKICertificates are the answers of the outside PKI.
type PKICertificates struct {
	// client is the chain of the operator's client CA in PEM: the certificate that answers status.requests.client first,
	// each followed by its issuer, the root last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="!self.contains('PRIVATE KEY')",message="client must hold certificates only because every reader of the EtcdPKI sees a private key in it: delete that key and replace what it was used for"
	Client string `json:"client,omitempty"`
	// peer is the chain of the operator's peer CA, in the form of client.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=131072
	// +kubebuilder:validation:XValidation:rule="!self.contains('PRIVATE KEY')",message="peer must hold certificates only because every reader of the EtcdPKI sees a private key in it: delete that key and replace what it was used for"
	Peer string `json:"peer,omitempty"`
}

// ConditionReady is True when the operator's CAs can sign those of clusters, or the Secret of an EtcdAccess is current.
const ConditionReady = "Ready"

// EtcdPKIStatus has what is to be signed, and whether it is.
type EtcdPKIStatus struct {
	// conditions: Ready, and Reconciling or Stalled while it is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// requests are what the outside PKI is to sign.
	// +optional
	Requests PKIRequests `json:"requests,omitzero"`
}

// PKIRequests are what the outside PKI is to sign.
type PKIRequests struct {
	// client is the PKCS#10 request of the operator's client CA, in PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Client string `json:"client,omitempty"`
	// peer is the PKCS#10 request of the operator's peer CA, in PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Peer string `json:"peer,omitempty"`
}
