// Package etcdload puts load on an etcd cluster and says what became of it: writers that
// repeat a write until its outcome is known, linearizable readers, and fresh connections to
// every member. The history of all keys is checked for linearizability.
//
// It must not know Kubernetes: how a member is reached is handed in.
package etcdload
