// Package v1beta2 holds the resources of the group etcd.database.coreos.com: EtcdCluster, an etcd cluster whose members
// encrypt and authenticate everything, and EtcdBackup, which copies its data. Names are those of the public etcd operator
// that had this group and version; TLS.dynamic, pod.ephemeral, status.memberStatuses and the storage type Volume are
// Keyturn's.
//
// The package must not know how a field is acted on.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=etcd.database.coreos.com
package v1beta2
