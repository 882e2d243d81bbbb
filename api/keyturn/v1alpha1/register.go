package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the package.
	Group = "keyturn.dev"
	// Version is the only version.
	Version = "v1alpha1"
	// KindEtcdPKI is the kind of EtcdPKI.
	KindEtcdPKI = "EtcdPKI"
	// KindEtcdAccess is the kind of EtcdAccess.
	KindEtcdAccess = "EtcdAccess"
)

var (
	// GroupVersion is the group and version that the types belong to.
	GroupVersion = schema.GroupVersion{Group: Group, Version: Version}
	// SchemeGroupVersion is GroupVersion under the name that generated code expects.
	SchemeGroupVersion = GroupVersion
)

// AddToScheme registers the types of the package. Its error is always nil; the form is that of
// every other AddToScheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &EtcdPKI{}, &EtcdPKIList{}, &EtcdAccess{}, &EtcdAccessList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
