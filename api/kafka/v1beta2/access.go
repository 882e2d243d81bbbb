package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
)

// KafkaAccess asks for one Secret with everything that an application needs to connect to a Kafka cluster:
// the address of a listener, the certificates to trust, and the credentials of a KafkaUser.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkaaccesses,singular=kafkaaccess,categories=strimzi,scope=Namespaced
// +kubebuilder:metadata:labels="servicebinding.io/provisioned-service=true"
// +kubebuilder:printcolumn:name="Listener",type=string,JSONPath=`.spec.kafka.listener.name`,description="The name of the Kafka listener"
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
	Status accessv1alpha1.KafkaAccessStatus `json:"status,omitzero"`
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
	User *UserReference `json:"user,omitempty"`
	// secretName is the Secret to write. Unset means the name of the KafkaAccess.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// template adds labels and annotations to the Secret.
	// +optional
	Template *accessv1alpha1.KafkaAccessTemplate `json:"template,omitempty"`
	// pkcs12 says whether the Secret has PKCS#12 stores with their passwords beside PEM. Where it is false, the Secret
	// has PEM only, with aliases. Unset means true.
	// +optional
	PKCS12 *bool `json:"pkcs12,omitempty"`
}

// KafkaReference names a Kafka and, optionally, one of its listeners.
type KafkaReference struct {
	// apiVersion of the Kafka, which is served in both versions with the same schema. Unset means any.
	// +optional
	// +kubebuilder:validation:Enum="kafka.strimzi.io/v1";"kafka.strimzi.io/v1beta2"
	APIVersion string `json:"apiVersion,omitempty"`
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
	Listener *ListenerReference `json:"listener,omitempty"`
	// truststoreRef says which CAs a client of the listener has to trust. Unset means the cluster CA or, where the
	// listener has a certificate of its own, the self-signed CA of its chain.
	// +optional
	TruststoreRef *accessv1alpha1.TruststoreReference `json:"truststoreRef,omitempty"`
}

// ListenerReference names a listener.
type ListenerReference struct {
	// name of the listener.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
}

// UserReference names a KafkaUser.
type UserReference struct {
	// apiVersion of the user, which is served in both versions with the same schema. Unset means any.
	// +optional
	// +kubebuilder:validation:Enum="kafka.strimzi.io/v1";"kafka.strimzi.io/v1beta2"
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the user, which is KafkaUser.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
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
