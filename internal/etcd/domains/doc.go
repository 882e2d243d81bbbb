// Package domains decides about the CAs of an EtcdCluster. Each plane is a domain of trust: its members present certificates of
// its CA, and trust that.
//
// It translates what is known of a cluster into what package domain decides from, and what that decides into what a member is
// given. It reads and writes nothing, and the time is an argument.
package domains
