// Package reports polls the agents of all clusters in the background, and keeps the last
// report of each.
//
// A reconcile does not wait for agents. It names those to poll and reads their latest
// reports, and is started again when one changes. Nothing is stored: the next process polls
// again.
package reports
