// Package controller is the etcd operator: it creates the members of EtcdClusters, signs their certificates and brings
// clusters to their size. It is the half that reads and writes; packages model, enroll and membership decide.
package controller
