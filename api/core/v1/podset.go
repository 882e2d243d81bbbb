package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keyturn/keyturn/api/condition"
)

// StrimziPodSet is a set of pods of which each has its own description. A pod that is missing is created;
// a running one is never changed or replaced because its description changed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=strimzipodsets,singular=strimzipodset,shortName=sps,categories=strimzi,scope=Namespaced
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`,description="Number of pods managed by the StrimziPodSet"
// +kubebuilder:printcolumn:name="Ready Pods",type=integer,JSONPath=`.status.readyPods`,description="Number of ready pods managed by the StrimziPodSet"
// +kubebuilder:printcolumn:name="Current Pods",type=integer,JSONPath=`.status.currentPods`,description="Number of up-to-date pods managed by the StrimziPodSet"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Age of the StrimziPodSet"
type StrimziPodSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the set as it should be.
	// +required
	Spec StrimziPodSetSpec `json:"spec,omitzero"`
	// status is the set as the operator last saw it.
	// +optional
	Status StrimziPodSetStatus `json:"status,omitzero"`
}

// StrimziPodSetList is a list of StrimziPodSet.
//
// +kubebuilder:object:root=true
type StrimziPodSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []StrimziPodSet `json:"items"`
}

// StrimziPodSetSpec is the set as it should be.
type StrimziPodSetSpec struct {
	// selector matches the labels of the pods of the set.
	// +required
	Selector metav1.LabelSelector `json:"selector,omitzero"`
	// pods are complete objects of kind Pod.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4096
	// +kubebuilder:pruning:PreserveUnknownFields
	Pods []runtime.RawExtension `json:"pods"`
}

// StrimziPodSetStatus is the set as the operator last saw it.
type StrimziPodSetStatus struct {
	// conditions of the set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Conditions []condition.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that the status is about, -1 before there is one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// pods is the number of pods that the set has.
	// +optional
	Pods int32 `json:"pods,omitempty"`
	// readyPods is the number of pods that are ready.
	// +optional
	ReadyPods int32 `json:"readyPods,omitempty"`
	// currentPods is the number of pods that run what the set describes now.
	// +optional
	CurrentPods int32 `json:"currentPods,omitempty"`
}
