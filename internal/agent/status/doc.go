// Package status holds what the agent knows about its server at this moment:
// what it was started with, whether it serves, and what a start is waiting for.
//
// It is memory with a lock, and decides nothing.
package status
