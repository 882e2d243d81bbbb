package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// KafkaNodePool is a set of like nodes of the Kafka cluster that its label strimzi.io/cluster names.
//
// A node's name is <cluster>-<pool>-<id>; it is a host name and has at most 63 characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:resource:path=kafkanodepools,singular=kafkanodepool,shortName=knp,categories=strimzi,scope=Namespaced
// +kubebuilder:printcolumn:name="Desired replicas",type=integer,JSONPath=`.spec.replicas`,description="The desired number of replicas"
// +kubebuilder:printcolumn:name="Roles",type=string,JSONPath=`.status.roles`,description="Roles of the nodes in the pool"
// +kubebuilder:printcolumn:name="NodeIds",type=string,JSONPath=`.status.nodeIds`,description="Node IDs used by Kafka nodes in this pool"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="When it was created"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 59",message="metadata.name has more than 59 characters, which leaves no room for the host name <cluster>-<pool>-<id> (63)",fieldPath=.metadata,reason=FieldValueInvalid
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must hold only lower-case letters, digits and '-': host names are made of it",fieldPath=.metadata,reason=FieldValueInvalid
type KafkaNodePool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the pool as it should be.
	// +required
	Spec KafkaNodePoolSpec `json:"spec,omitzero"`
	// status is the pool as the operator last saw it.
	// +optional
	Status KafkaNodePoolStatus `json:"status,omitzero"`
}

// KafkaNodePoolList is a list of KafkaNodePool.
//
// +kubebuilder:object:root=true
type KafkaNodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []KafkaNodePool `json:"items"`
}

// ProcessRole is a part that a Kafka node plays.
// +kubebuilder:validation:Enum=controller;broker
type ProcessRole string

const (
	// RoleController votes on the cluster's metadata.
	RoleController ProcessRole = "controller"
	// RoleBroker holds partitions and serves clients.
	RoleBroker ProcessRole = "broker"
)

// MaxReplicas is how many nodes a pool may ask for; the schema says the same. One
// StrimziPodSet describes all of them with 4 KiB each at least, and the API server stores
// no object above 1.5 MiB.
const MaxReplicas = 400

// KafkaNodePoolSpec is the pool as it should be.
type KafkaNodePoolSpec struct {
	// replicas is the number of nodes.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=400
	Replicas int32 `json:"replicas"`
	// roles of every node of the pool.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Roles []ProcessRole `json:"roles,omitempty"`
	// storage of every node of the pool.
	// +required
	Storage Storage `json:"storage,omitzero"`
	// resources of the nodes. Unset means those of the Kafka.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// jvmOptions of the nodes. Unset means those of the Kafka.
	// +optional
	JvmOptions *JvmOptions `json:"jvmOptions,omitempty"`
	// template adds to the pods of the nodes, in place of the one of the Kafka.
	// +optional
	Template *NodePoolTemplate `json:"template,omitempty"`
}

// NodePoolTemplate adds to objects of a pool.
type NodePoolTemplate struct {
	// pod of each node.
	// +optional
	Pod *PodTemplate `json:"pod,omitempty"`
}

// KafkaNodePoolStatus is the pool as the operator last saw it.
type KafkaNodePoolStatus struct {
	// conditions of the pool.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// nodeIds that belong to the pool, in ascending order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	NodeIds []int32 `json:"nodeIds,omitempty"`
	// clusterId is the identity of the Kafka cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterId string `json:"clusterId,omitempty"`
	// roles that the nodes play.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Roles []ProcessRole `json:"roles,omitempty"`
	// replicas is the number of nodes that exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// labelSelector selects the pool's pods, in the form of kubectl's -l.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LabelSelector string `json:"labelSelector,omitempty"`
}
