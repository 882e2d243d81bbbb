// Package reports polls the processes of all clusters in the background, and keeps the last
// report of each.
//
// A reconcile does not wait for what it polls. It names that and reads the latest
// reports, and is started again when one changes. Nothing is stored: the next process polls
// again.
package reports
