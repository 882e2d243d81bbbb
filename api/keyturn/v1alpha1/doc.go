// Package v1alpha1 holds the resources of the group keyturn.dev, which are Keyturn's own: EtcdPKI, which says who signs
// the CAs of the etcd operator, and EtcdAccess, which gives an application a certificate of an etcd cluster.
//
// The package must not know how a field is acted on.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=keyturn.dev
package v1alpha1
