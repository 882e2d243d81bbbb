// Package snapshottest makes snapshots of etcd for tests.
package snapshottest
