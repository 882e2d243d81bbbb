package v1

import corev1 "k8s.io/api/core/v1"

// Resources that a container asks for and may use at most.
type Resources struct {
	// limits that the container cannot exceed.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// requests that the scheduler keeps free for the container.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// JvmOptions are options of the Java virtual machine of a node.
type JvmOptions struct {
	// -Xms is the heap at the start, in bytes or with one of the suffixes k, m and g.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+[kKmMgG]?$`
	// +kubebuilder:validation:MaxLength=32
	Xms string `json:"-Xms,omitempty"`
	// -Xmx is the largest heap, in bytes or with one of the suffixes k, m and g.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+[kKmMgG]?$`
	// +kubebuilder:validation:MaxLength=32
	Xmx string `json:"-Xmx,omitempty"`
	// -XX holds options by name: true and false switch one on and off, any other value is set.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	XX map[string]string `json:"-XX,omitempty"`
	// gcLoggingEnabled says whether garbage collection is logged. Unset means false.
	// +optional
	GcLoggingEnabled *bool `json:"gcLoggingEnabled,omitempty"`
	// javaSystemProperties are passed as -Dname=value.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	JavaSystemProperties []SystemProperty `json:"javaSystemProperties,omitempty"`
}

// SystemProperty is a system property of the Java virtual machine.
type SystemProperty struct {
	// name of the property.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// value of the property.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
}
