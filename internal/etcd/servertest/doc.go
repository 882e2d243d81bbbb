// Package servertest runs the operator of etcd clusters with real agents beside real etcd,
// on one machine without a kubelet: a real API server takes what they write to each other,
// and the test mounts it and names the members' ports.
//
// The tests need $KUBEBUILDER_ASSETS and $KEYTURN_ETCD_HOMES; make server-test sets both.
package servertest
