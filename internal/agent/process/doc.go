// Package process runs one child process the way the first process of a
// container has to: signals are passed on, orphans are reaped, a child that
// does not end in its time is killed, and its exit code is the caller's.
//
// It does not know what the child is.
package process
