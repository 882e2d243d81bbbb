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
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="NotReady")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
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
	// authorization says what the user may do. Unset means that Kafka has no ACLs of the user. Those of a user that has
	// neither authorization nor quotas nor a password are not looked at.
	// +optional
	Authorization *UserAuthorization `json:"authorization,omitempty"`
	// quotas of the user, each of which must be greater than 0. Unset means none.
	// +optional
	Quotas *UserQuotas `json:"quotas,omitempty"`
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
// +kubebuilder:validation:XValidation:rule="has(self.validityDays) == has(self.renewalDays)",message="validityDays and renewalDays must be set together",reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="!has(self.validityDays) || !has(self.renewalDays) || self.renewalDays < self.validityDays",message="renewalDays must be less than validityDays because a certificate would otherwise be due for renewal when it is issued",reason=FieldValueInvalid
type UserAuthentication struct {
	// type of the authentication.
	// +required
	Type UserAuthenticationType `json:"type,omitempty"`
	// password of a SCRAM user. Unset means one that the user operator generates. It has no effect with other types.
	// +optional
	Password *UserPassword `json:"password,omitempty"`
	// validityDays is how long a certificate is valid. Unset means that of the clients CA. It has no effect with types other than tls.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	ValidityDays *int32 `json:"validityDays,omitempty"`
	// renewalDays is how many days before its end a certificate is renewed. Unset means that of the clients CA. It has no effect with types other than tls.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	RenewalDays *int32 `json:"renewalDays,omitempty"`
}

// UserPassword says where the password of a SCRAM user comes from.
type UserPassword struct {
	// valueFrom is the place of the password.
	// +required
	ValueFrom UserPasswordSource `json:"valueFrom,omitzero"`
}

// UserPasswordSource is the place of a password.
type UserPasswordSource struct {
	// secretKeyRef is an entry of a Secret in the namespace of the KafkaUser.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef,omitzero"`
}

// SecretKeyReference names an entry of a Secret.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// key of the entry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// UserAuthorization says what a user may do.
type UserAuthorization struct {
	// type of the authorization, which is that of the Kafka.
	// +required
	// +kubebuilder:validation:Enum=simple
	Type AuthorizationType `json:"type,omitempty"`
	// acls of the user. Whatever Kafka has beside them for this user is removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	ACLs []ACLRule `json:"acls,omitempty"`
}

// ACLOperation is what an ACL allows or denies.
// +kubebuilder:validation:Enum=Read;Write;Create;Delete;Alter;Describe;ClusterAction;AlterConfigs;DescribeConfigs;IdempotentWrite;All
type ACLOperation string

// ACLRuleType says whether an ACL allows or denies.
// +kubebuilder:validation:Enum=allow;deny
type ACLRuleType string

const (
	// ACLAllow is what an ACL does when it does not say.
	ACLAllow ACLRuleType = "allow"
	// ACLDeny wins over every ACL that allows.
	ACLDeny ACLRuleType = "deny"
)

// ACLRule is one ACL for each of its operations.
//
// +kubebuilder:validation:XValidation:rule="has(self.operation) != has(self.operations)",message="exactly one of operation and operations must be set: operations takes any number",reason=FieldValueInvalid
type ACLRule struct {
	// type of the rule. Unset means allow.
	// +optional
	Type ACLRuleType `json:"type,omitempty"`
	// resource that the rule is about.
	// +required
	Resource ACLResource `json:"resource,omitzero"`
	// host that the user connects from. Unset means any.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Host string `json:"host,omitempty"`
	// operations that the rule is about.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Operations []ACLOperation `json:"operations,omitempty"`
	// operation is operations with one entry, in manifests of v1beta2.
	// +optional
	Operation ACLOperation `json:"operation,omitempty"`
}

// ACLResourceType is the kind of a resource of Kafka.
// +kubebuilder:validation:Enum=topic;group;cluster;transactionalId
type ACLResourceType string

// The kinds of resources that ACLs are about.
const (
	ACLTopic           ACLResourceType = "topic"
	ACLGroup           ACLResourceType = "group"
	ACLCluster         ACLResourceType = "cluster"
	ACLTransactionalID ACLResourceType = "transactionalId"
)

// ACLPatternType says which resources a name stands for.
// +kubebuilder:validation:Enum=literal;prefix
type ACLPatternType string

const (
	// ACLLiteral stands for the resource of that name, and * for all.
	ACLLiteral ACLPatternType = "literal"
	// ACLPrefix stands for all resources whose names begin with it.
	ACLPrefix ACLPatternType = "prefix"
)

// ACLResource is a resource of Kafka, or several with one prefix.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'cluster' || has(self.name)",message="name must be set unless type is cluster",reason=FieldValueInvalid
type ACLResource struct {
	// type of the resource.
	// +required
	Type ACLResourceType `json:"type,omitempty"`
	// name of the resource. It has no effect with type cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32767
	Name string `json:"name,omitempty"`
	// patternType says which resources the name stands for. Unset means literal. It has no effect with type cluster.
	// +optional
	PatternType ACLPatternType `json:"patternType,omitempty"`
}

// UserQuotas limit what a user takes of each broker.
type UserQuotas struct {
	// producerByteRate is how many bytes a second the user may produce.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProducerByteRate *int32 `json:"producerByteRate,omitempty"`
	// consumerByteRate is how many bytes a second the user may consume.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConsumerByteRate *int32 `json:"consumerByteRate,omitempty"`
	// requestPercentage is how much of a thread's time requests of the user may take.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequestPercentage *int32 `json:"requestPercentage,omitempty"`
	// controllerMutationRate is how many partitions a second the user may create or delete.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ControllerMutationRate *float64 `json:"controllerMutationRate,omitempty"`
}

// UserTemplate adds labels and annotations to objects that the user operator creates.
type UserTemplate struct {
	// secret is the Secret with the user's credentials.
	// +optional
	Secret *ResourceTemplate `json:"secret,omitempty"`
}

// KafkaUserStatus is the user as the user operator last saw it.
type KafkaUserStatus struct {
	// conditions: Ready or NotReady, any number of Warning, and Reconciling or Stalled while it is not ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
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
