package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KafkaAccess asks for one Secret with everything that an application needs to connect to a Kafka cluster:
// the address of a listener, the certificates to trust, and the credentials of a KafkaUser.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkaaccesses,singular=kafkaaccess,shortName=ka,categories=strimzi,scope=Namespaced
// +kubebuilder:metadata:labels="servicebinding.io/provisioned-service=true"
// +kubebuilder:printcolumn:name="Listener",type=string,JSONPath=`.spec.kafka.listener`,description="The name of the Kafka listener"
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.kafka.name`,description="The name of the Kafka cluster"
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user.name`,description="The name of the KafkaUser"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The state of the custom resource"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
type KafkaAccess struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what to connect to, and as which user.
	// +required
	Spec KafkaAccessSpec `json:"spec,omitzero"`
	// status is the access as the access operator last saw it.
	// +optional
	Status KafkaAccessStatus `json:"status,omitzero"`
}

// KafkaAccessList is a list of KafkaAccess.
//
// +kubebuilder:object:root=true
type KafkaAccessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KafkaAccess `json:"items"`
}

// KafkaAccessSpec is what to connect to, and as which user.
type KafkaAccessSpec struct {
	// kafka is the cluster to connect to.
	// +required
	Kafka KafkaReference `json:"kafka,omitzero"`
	// user to connect as. Unset means no credentials.
	// +optional
	User *KafkaUserReference `json:"user,omitempty"`
	// secretName is the Secret to write. Unset means the name of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// template adds labels and annotations to the Secret.
	// +optional
	Template *KafkaAccessTemplate `json:"template,omitempty"`
	// pkcs12 says whether the Secret has PKCS#12 stores with their passwords beside PEM, and then no aliases. Unset
	// means false.
	// +optional
	PKCS12 *bool `json:"pkcs12,omitempty"`
}

// KafkaReference names a Kafka and, optionally, one of its listeners.
type KafkaReference struct {
	// name of the Kafka.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the Kafka. Unset means that of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// listener to connect to. Unset means one that the user can authenticate to, internal ones first, by name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Listener string `json:"listener,omitempty"`
	// truststoreRef says which CAs a client of the listener has to trust. Unset means the cluster CA or, where the
	// listener has a certificate of its own, the self-signed CA of its chain.
	// +optional
	TruststoreRef *TruststoreReference `json:"truststoreRef,omitempty"`
}

// TruststoreReference says which CAs a client has to trust: those of a Secret, or those that its system trusts.
//
// +kubebuilder:validation:XValidation:rule="has(self.system) ? !has(self.secretName) && !has(self.key) : has(self.secretName) && has(self.key)",message="truststoreRef must have either system or both secretName and key because a client trusts one set of CAs",reason=FieldValueInvalid
type TruststoreReference struct {
	// system is true where the operating system or the JVM of the client trusts the CA already. The Secret then
	// has no truststore.
	// +optional
	// +kubebuilder:validation:Enum=true
	System bool `json:"system,omitempty"`
	// secretName is a Secret in the namespace of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// key of the entry with CA certificates in PEM.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// KafkaUserReference names a KafkaUser.
type KafkaUserReference struct {
	// kind of the user, which is KafkaUser.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// apiGroup of the user, which is kafka.strimzi.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// name of the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the user. Unset means that of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// KafkaAccessTemplate adds labels and annotations to objects that the access operator creates.
type KafkaAccessTemplate struct {
	// secret is the Secret for the application.
	// +optional
	Secret *SecretTemplate `json:"secret,omitempty"`
}

// SecretTemplate is what the user adds to the Secret.
type SecretTemplate struct {
	// metadata that is added.
	// +optional
	Metadata *MetadataTemplate `json:"metadata,omitempty"`
}

// MetadataTemplate holds labels and annotations that the user adds to the Secret.
type MetadataTemplate struct {
	// labels that are added. The operator's own win.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Labels map[string]string `json:"labels,omitempty"`
	// annotations that are added. The operator's own win.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Annotations map[string]string `json:"annotations,omitempty"`
}

// KafkaAccessStatus is the access as the access operator last saw it.
type KafkaAccessStatus struct {
	// conditions: Ready, which is True or False, Warning when an annotation has no effect, and Reconciling or Stalled while it is not ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// binding names the Secret, as the Service Binding specification has it.
	// +optional
	Binding *Binding `json:"binding,omitempty"`
}

// Binding names the Secret of a provisioned service.
type Binding struct {
	// name of the Secret, in the namespace of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
