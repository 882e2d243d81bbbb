package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of the package.
	Group = "etcd.database.coreos.com"
	// Version is the only version.
	Version = "v1beta2"
	// KindEtcdCluster is the kind of EtcdCluster.
	KindEtcdCluster = "EtcdCluster"
	// KindEtcdBackup is the kind of EtcdBackup.
	KindEtcdBackup = "EtcdBackup"
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
	scheme.AddKnownTypes(GroupVersion, &EtcdCluster{}, &EtcdClusterList{}, &EtcdBackup{}, &EtcdBackupList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
