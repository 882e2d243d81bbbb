package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// Kafka is a Kafka cluster: its listeners, its configuration and its two certificate authorities. Its
// nodes are described by the KafkaNodePools that carry its name in the label strimzi.io/cluster.
//
// The name begins the names of Services and Secrets and is part of certificate subjects. The longest
// Service is <name>-kafka-bootstrap, and a Service name has at most 63 characters and no dots.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=kafkas,singular=kafka,shortName=k,categories=strimzi,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The state of the custom resource"
// +kubebuilder:printcolumn:name="Warnings",type=string,JSONPath=`.status.conditions[?(@.type=="Warning")].status`,description="Warnings related to the custom resource"
// +kubebuilder:printcolumn:name="Kafka Version",type=string,JSONPath=`.status.kafkaVersion`,description="The Kafka version used by the cluster"
// +kubebuilder:printcolumn:name="Metadata Version",type=string,JSONPath=`.status.kafkaMetadataVersion`,description="The Kafka metadata version used by the cluster"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="NotReady")].reason`,description="Why it is not ready"
// +kubebuilder:printcolumn:name="Cluster CA",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterCATrust")].reason`,priority=1,description="How far the trust in the cluster CA is"
// +kubebuilder:printcolumn:name="Clients CA",type=string,JSONPath=`.status.conditions[?(@.type=="ClientsCATrust")].reason`,priority=1,description="How far the trust in the clients CA is"
// +kubebuilder:printcolumn:name="First expiry",type=string,JSONPath=`.status.conditions[?(@.type=="CertificatesValid")].message`,priority=1,description="What expires first, and when"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 47",message="metadata.name has more than 47 characters, which leaves no room for the Service <name>-kafka-bootstrap (63)",fieldPath=.metadata,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': Services are named after it",fieldPath=.metadata,reason=FieldValueInvalid
type Kafka struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the cluster as it should be.
	// +required
	Spec KafkaSpec `json:"spec,omitzero"`
	// status is the cluster as the operator last saw it.
	// +optional
	Status KafkaStatus `json:"status,omitzero"`
}

// KafkaList is a list of Kafka.
//
// +kubebuilder:object:root=true
type KafkaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Kafka `json:"items"`
}

// KafkaSpec is the cluster as it should be.
type KafkaSpec struct {
	// kafka configures the nodes of the cluster.
	// +required
	Kafka KafkaClusterSpec `json:"kafka,omitzero"`
	// clusterCa configures the authority that signs the nodes' certificates.
	// +optional
	ClusterCa *CertificateAuthority `json:"clusterCa,omitempty"`
	// clientsCa configures the authority that signs the certificates of users.
	// +optional
	ClientsCa *CertificateAuthority `json:"clientsCa,omitempty"`
	// maintenanceTimeWindows are cron expressions (Quartz form, UTC): renewals of authorities and of
	// leaf certificates that are due start only inside of them. Without any, they start at once.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	MaintenanceTimeWindows []string `json:"maintenanceTimeWindows,omitempty"`
	// entityOperator runs operators of the cluster's own beside its nodes.
	// +optional
	EntityOperator *EntityOperator `json:"entityOperator,omitempty"`
}

// KafkaClusterSpec configures the nodes of the cluster.
type KafkaClusterSpec struct {
	// version of Apache Kafka. Unset means the newest one that the operator has an image for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version,omitempty"`
	// metadataVersion that the cluster is raised to once all nodes run a version that knows it, such as
	// 4.3 or 4.3-IV0. Unset means that of the version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	MetadataVersion string `json:"metadataVersion,omitempty"`
	// image of the nodes. Unset means the operator's image for the version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`
	// listeners that clients connect to.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(l, self.exists_one(o, o.port == l.port))",message="two listeners share a port: every listener needs one of its own",reason=FieldValueInvalid
	Listeners []Listener `json:"listeners,omitempty"`
	// config holds broker and controller properties. The operator drops the ones that it sets itself.
	// +optional
	// +kubebuilder:validation:MaxProperties=1024
	Config Config `json:"config,omitempty"`
	// authorization of clients. Unset means that every authenticated client may do everything.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`
	// resources of every node, unless its pool has its own.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// jvmOptions of every node, unless its pool has its own.
	// +optional
	JvmOptions *JvmOptions `json:"jvmOptions,omitempty"`
	// template adds to objects that the operator creates.
	// +optional
	Template *KafkaTemplate `json:"template,omitempty"`
}

// AuthorizationType names how brokers decide what a client may do.
// +kubebuilder:validation:Enum=simple;custom;opa;keycloak
type AuthorizationType string

const (
	// AuthorizationSimple is Kafka's own authorizer with ACLs in the cluster's metadata.
	AuthorizationSimple AuthorizationType = "simple"
	// AuthorizationCustom is an authorizer class of the user. Keyturn reports it as not supported.
	AuthorizationCustom AuthorizationType = "custom"
	// AuthorizationOPA asks an Open Policy Agent, in manifests of v1beta2. Keyturn reports it as not supported.
	AuthorizationOPA AuthorizationType = "opa"
	// AuthorizationKeycloak asks a Keycloak, in manifests of v1beta2. Keyturn reports it as not supported.
	AuthorizationKeycloak AuthorizationType = "keycloak"
)

// Authorization of clients.
type Authorization struct {
	// type of the authorization.
	// +required
	Type AuthorizationType `json:"type,omitempty"`
	// superUsers are principals without the prefix User: that may do everything.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	SuperUsers []string `json:"superUsers,omitempty"`
}

// KafkaTemplate adds to objects that the operator creates.
type KafkaTemplate struct {
	// clusterCaCert is the Secret with the cluster authority's certificate.
	// +optional
	ClusterCaCert *ResourceTemplate `json:"clusterCaCert,omitempty"`
	// pod of each node, unless its pool has a template.
	// +optional
	Pod *PodTemplate `json:"pod,omitempty"`
}

// PodTemplate is what the user adds to pods.
type PodTemplate struct {
	// imagePullSecrets are the Secrets that images are pulled with. Unset means those of the operator, and an empty list none.
	// A change restarts no node: pods that are created later have it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ImagePullSecrets []ImagePullSecret `json:"imagePullSecrets,omitzero"`
}

// ImagePullSecret is a Secret with credentials for a registry.
type ImagePullSecret struct {
	// name of the Secret, which is in the namespace of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// ResourceTemplate is what the user adds to one object.
type ResourceTemplate struct {
	// metadata that is added.
	// +optional
	Metadata *MetadataTemplate `json:"metadata,omitempty"`
}

// MetadataTemplate holds labels and annotations that the user adds to an object.
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

// KafkaStatus is the cluster as the operator last saw it.
type KafkaStatus struct {
	// conditions: Ready or NotReady, any number of Warning, ReconciliationPaused, and Reconciling or Stalled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// listeners with the addresses that clients can use now.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Listeners []ListenerStatus `json:"listeners,omitempty"`
	// kafkaNodePools that belong to the cluster, by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	KafkaNodePools []UsedNodePool `json:"kafkaNodePools,omitempty"`
	// clusterId is the identity that the storage of all nodes is formatted with. It never changes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterId string `json:"clusterId,omitempty"`
	// kafkaVersion that all nodes run.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	KafkaVersion string `json:"kafkaVersion,omitempty"`
	// kafkaMetadataVersion that the cluster works with.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	KafkaMetadataVersion string `json:"kafkaMetadataVersion,omitempty"`
	// operatorLastSuccessfulVersion is the version of the operator whose reconciliation last succeeded.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	OperatorLastSuccessfulVersion string `json:"operatorLastSuccessfulVersion,omitempty"`
	// users of the cluster. The user operator writes it, and no other field.
	// +optional
	Users *UsersStatus `json:"users,omitempty"`
}

// UsersStatus counts the KafkaUsers of a cluster.
type UsersStatus struct {
	// total of the KafkaUsers.
	// +required
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// ready KafkaUsers.
	// +required
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`
	// reissued counts the KafkaUsers whose certificate is current. Those that are missing from total wait for a certificate
	// of the clients CA in use. KafkaUsers without a certificate count as current.
	// +required
	// +kubebuilder:validation:Minimum=0
	Reissued int32 `json:"reissued"`
	// oldest is the time from which the oldest certificate of a KafkaUser is valid. Unset means that there is none.
	// +optional
	Oldest *metav1.Time `json:"oldest,omitempty"`
	// unmanaged counts the users that Kafka holds ACLs, quotas or a password for and that are no KafkaUsers.
	// Unset means that this is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unmanaged *int32 `json:"unmanaged,omitempty"`
	// unmanagedNames are the first 20 of them in alphabetical order, each cut to 1 KiB.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	UnmanagedNames []string `json:"unmanagedNames,omitempty"`
}

// UsedNodePool names a KafkaNodePool that belongs to the cluster.
type UsedNodePool struct {
	// name of the KafkaNodePool.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}
