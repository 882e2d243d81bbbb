// Package status adds to what any agent knows about its server the state in Kafka's
// numbers.
//
// It is memory with a lock, and decides nothing.
package status
