// Package agent runs beside etcd, as the first process of its container. It makes the
// keys of the member, has them certified through annotations of its own pod, starts etcd
// on the certificates and replaces those while etcd runs.
//
// A private key never leaves the memory-backed directory it was made in. The agent decides
// nothing about the cluster: etcd's command line is the operator's.
package agent
