package v1

// EntityOperator says which operators run beside the nodes, in a Deployment of the cluster.
type EntityOperator struct {
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
	Pod *PodTemplate `json:"pod,omitempty"`
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
