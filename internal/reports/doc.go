// Package reports polls the agents of all clusters in the background, and keeps the last
// report of each.
//
// A reconcile waits for none of them: it says whom to poll, reads what is known, and is told
// when that changes. Nothing of it is stored: the next process polls again.
package reports
