package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// KafkaUser is a client of the Kafka cluster that its label strimzi.io/cluster names: how it proves who
// it is, and the Secret that its credentials are stored in.
//
// Kafka knows a user with a certificate as CN=<name>, and a common name has at most 64 characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkausers,singular=kafkauser,shortName=ku,categories=strimzi,scope=Namespaced
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.strimzi\.io/cluster`,description="The name of the Kafka cluster this user belongs to"
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.spec.authentication.type`,description="How the user is authenticated"
// +kubebuilder:printcolumn:name="Authorization",type=string,JSONPath=`.spec.authorization.type`,description="How the user is authorised"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The state of the custom resource"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.authentication) || !(self.spec.authentication.type in ['tls', 'tls-external']) || size(self.metadata.name) <= 64",message="metadata.name must have at most 64 characters because it is the common name of the user's certificate",fieldPath=.metadata,reason=FieldValueInvalid
type KafkaUser struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the user as it should be.
	// +required
	Spec KafkaUserSpec `json:"spec,omitzero"`
	// status is the user as the user operator last saw it.
	// +optional
	Status KafkaUserStatus `json:"status,omitzero"`
}

// KafkaUserList is a list of KafkaUser.
//
// +kubebuilder:object:root=true
type KafkaUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KafkaUser `json:"items"`
}

// KafkaUserSpec is the user as it should be.
type KafkaUserSpec struct {
	// authentication of the user. Unset means that the user has no credentials.
	// +optional
	Authentication *UserAuthentication `json:"authentication,omitempty"`
	// template adds labels and annotations to the user's Secret.
	// +optional
	Template *UserTemplate `json:"template,omitempty"`
}

// UserAuthenticationType names how a user proves who it is.
// +kubebuilder:validation:Enum=tls;tls-external;scram-sha-512
type UserAuthenticationType string

const (
	// UserTLS is a client certificate that Keyturn issues.
	UserTLS UserAuthenticationType = "tls"
	// UserTLSExternal is a client certificate that the user brings.
	UserTLSExternal UserAuthenticationType = "tls-external"
	// UserSCRAM is a password.
	UserSCRAM UserAuthenticationType = "scram-sha-512"
)

// UserAuthentication says how a user proves who it is.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'tls' || (!has(self.validityDays) && !has(self.renewalDays))",message="validityDays and renewalDays must only be set with type tls because other users have no certificate that Keyturn issues",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="has(self.validityDays) == has(self.renewalDays)",message="validityDays and renewalDays must be set together",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.validityDays) || !has(self.renewalDays) || self.renewalDays < self.validityDays",message="renewalDays must be less than validityDays because a certificate would otherwise be due for renewal when it is issued",reason=FieldValueInvalid
type UserAuthentication struct {
	// type of the authentication.
	// +required
	Type UserAuthenticationType `json:"type,omitempty"`
	// validityDays is how long a certificate is valid. Unset means that of the clients CA.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	ValidityDays *int32 `json:"validityDays,omitempty"`
	// renewalDays is how many days before its end a certificate is renewed. Unset means that of the clients CA.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	RenewalDays *int32 `json:"renewalDays,omitempty"`
}

// UserTemplate adds labels and annotations to objects that the user operator creates.
type UserTemplate struct {
	// secret is the Secret with the user's credentials.
	// +optional
	Secret *ResourceTemplate `json:"secret,omitempty"`
}

// KafkaUserStatus is the user as the user operator last saw it.
type KafkaUserStatus struct {
	// conditions: Ready or NotReady, and any number of Warning.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// username that Kafka knows the user by, which is the one for ACLs.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Username string `json:"username,omitempty"`
	// secret with the user's credentials, in the namespace of the KafkaUser.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
}
