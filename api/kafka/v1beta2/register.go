package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the package.
	Group = "kafka.strimzi.io"
	// Version is the only version of KafkaAccess in this group.
	Version = "v1beta2"
	// KindKafkaAccess is the kind of KafkaAccess.
	KindKafkaAccess = "KafkaAccess"
)

// GroupVersion is the group and version that the types belong to.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// AddToScheme registers the types of the package. Its error is always nil; the form is that of
// every other AddToScheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &KafkaAccess{}, &KafkaAccessList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
