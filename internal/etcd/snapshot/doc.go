// Package snapshot stores copies of etcd's data as files of a directory, and verifies them.
//
// It knows neither where they come from nor Kubernetes.
package snapshot
