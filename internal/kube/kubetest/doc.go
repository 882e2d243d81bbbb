// Package kubetest starts API servers for tests. They end with the process that
// started them, however it ends: one that is killed, or whose time is up, leaves
// nothing running behind.
package kubetest
