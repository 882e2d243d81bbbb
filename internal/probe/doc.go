// Package probe runs real Kafka clients with several kinds of trust side by side
// against one cluster, and counts what they lose.
//
// It decides when a client sends and connects, and keeps the account of it. It
// must not know how Keyturn rotates anything: it sees a cluster from outside, as
// an application does.
package probe
