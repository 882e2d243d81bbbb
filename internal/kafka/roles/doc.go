// Package roles says what a node of a Kafka cluster trusts and presents in each of its
// roles: its listeners, its Raft client and its agent.
//
// It knows what each of them can load without a restart. It decides nothing about trust.
package roles
