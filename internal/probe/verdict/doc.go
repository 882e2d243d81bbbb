// Package verdict decides what a fresh connection proved: that both sides accept
// each other, that one refused the other's certificate and why, or nothing,
// because the server was not there.
//
// It must not know where the connection came from, who asks, or Kubernetes.
package verdict
