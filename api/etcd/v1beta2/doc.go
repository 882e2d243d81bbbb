// Package v1beta2 holds the resource of the group etcd.database.coreos.com: EtcdCluster, an etcd cluster whose members
// encrypt and authenticate everything. Names are those of the public etcd operator that had this group and version;
// TLS.dynamic, pod.ephemeral and status.memberStatuses are Keyturn's.
//
// The package must not know how a field is acted on.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=etcd.database.coreos.com
package v1beta2
