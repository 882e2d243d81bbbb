// Package model says what an EtcdCluster consists of: its Services, and for each member a pod, a claim, an account that
// may change nothing but that pod, and a Secret with what the member trusts. All flags of etcd are decided here.
//
// It reads nothing, and the time is an argument.
package model
