package v1

import "k8s.io/apimachinery/pkg/runtime"

// EntityOperator says which operators run beside the nodes, in a Deployment of the cluster.
type EntityOperator struct {
	// topicOperator looks after the KafkaTopics of the cluster. Unset means that none runs beside the nodes.
	// +optional
	TopicOperator *TopicOperator `json:"topicOperator,omitempty"`
	// userOperator looks after the KafkaUsers of the cluster. Unset means that none runs beside the nodes.
	// +optional
	UserOperator *UserOperator `json:"userOperator,omitempty"`
	// template adds to the pod of the operators.
	// +optional
	Template *EntityOperatorTemplate `json:"template,omitempty"`
}

// EntityOperatorTemplate adds to the pod of the operators beside the nodes.
type EntityOperatorTemplate struct {
	// pod of the operators.
	// +optional
	Pod *OperatorPodTemplate `json:"pod,omitempty"`
	// topicOperatorContainer is the container of the topic operator.
	// +optional
	TopicOperatorContainer *OperatorContainerTemplate `json:"topicOperatorContainer,omitempty"`
	// userOperatorContainer is the container of the user operator.
	// +optional
	UserOperatorContainer *OperatorContainerTemplate `json:"userOperatorContainer,omitempty"`
}

// OperatorPodTemplate is what the user adds to the pod of the operators beside the nodes. A change replaces the pod.
//
// What has a form of Kubernetes' own is not decoded here: a number that does not fit in one object would keep the operator from
// decoding all the others.
type OperatorPodTemplate struct {
	// imagePullSecrets are the Secrets that images are pulled with. Unset means those of the operator, and an empty list none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ImagePullSecrets []ImagePullSecret `json:"imagePullSecrets,omitzero"`
	// affinity says on which machines the pod may run. What is below it is as in a Pod.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Affinity *runtime.RawExtension `json:"affinity,omitempty"`
	// tolerations of the pod. What is below it is as in a Pod.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Tolerations *runtime.RawExtension `json:"tolerations,omitempty"`
	// topologySpreadConstraints of the pod. What is below it is as in a Pod.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	TopologySpreadConstraints *runtime.RawExtension `json:"topologySpreadConstraints,omitempty"`
	// priorityClassName of the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// schedulerName is the scheduler that places the pod. Unset means that of Kubernetes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SchedulerName string `json:"schedulerName,omitempty"`
}

// OperatorContainerTemplate is what the user adds to the container of an operator beside the nodes. As in OperatorPodTemplate,
// what has a form of Kubernetes' own is not decoded here.
type OperatorContainerTemplate struct {
	// env are environment variables of the container. Names that begin with KEYTURN_, KUBERNETES_ or
	// SSL_CERT_ are refused, and so are GODEBUG and KUBECONFIG. What is below it is as in a Pod.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Env *runtime.RawExtension `json:"env,omitempty"`
}

// TopicOperator configures the topic operator that runs beside the nodes.
type TopicOperator struct {
	// resources of its container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}

// UserOperator configures the user operator that runs beside the nodes.
type UserOperator struct {
	// secretPrefix begins the names of users' Secrets.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^([a-z0-9][a-z0-9.-]*)?$`
	SecretPrefix string `json:"secretPrefix,omitempty"`
	// resources of its container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}
