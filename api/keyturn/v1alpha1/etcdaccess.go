package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdAccess gives an application the address of an EtcdCluster and a certificate to connect with, in a Secret.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=etcdaccesses,singular=etcdaccess,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster.name`,description="The EtcdCluster"
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.status.user`,description="What etcd knows the application by"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the Secret is current"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type EtcdAccess struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what is accessed, and by whose key.
	// +required
	Spec EtcdAccessSpec `json:"spec,omitzero"`
	// status says what was written.
	// +optional
	Status EtcdAccessStatus `json:"status,omitzero"`
}

// EtcdAccessList is a list of EtcdAccess.
//
// +kubebuilder:object:root=true
type EtcdAccessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []EtcdAccess `json:"items"`
}

// EtcdAccessSpec says what is accessed, and by whose key.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretName) == has(oldSelf.secretName)",message="secretName must not change because applications mount the Secret: create another EtcdAccess",fieldPath=.secretName
type EtcdAccessSpec struct {
	// cluster is the EtcdCluster. One of another namespace has to allow it.
	// +required
	Cluster EtcdClusterReference `json:"cluster,omitzero"`
	// secretName of the Secret that is written. Unset means the name of the EtcdAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="secretName must not change because applications mount the Secret: create another EtcdAccess"
	SecretName string `json:"secretName,omitempty"`
	// request is a PKCS#10 request in PEM for a key of the application's own. Of it only the public key counts. Unset means
	// that the operator makes the key, and writes it into the Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	// +kubebuilder:validation:XValidation:rule="!self.contains('PRIVATE KEY')",message="request must be a certificate request because every reader of the EtcdAccess sees a private key in it: delete that key and replace what it was used for"
	Request string `json:"request,omitempty"`
}

// EtcdClusterReference names an EtcdCluster.
type EtcdClusterReference struct {
	// name of the EtcdCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the EtcdCluster. Unset means that of the EtcdAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// EtcdAccessStatus says what was written.
type EtcdAccessStatus struct {
	// conditions: Ready, and Reconciling or Stalled while it is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// user is the common name of the certificate, by which etcd knows the application.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	User string `json:"user,omitempty"`
	// notAfter is when the certificate expires. It is renewed after two thirds of its life.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// binding names the Secret that was written.
	// +optional
	Binding *SecretBinding `json:"binding,omitempty"`
}

// SecretBinding names a Secret.
type SecretBinding struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
