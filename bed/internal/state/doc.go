// Package state knows the one folder in which the bed keeps everything: where each thing lies in it, who holds its
// lock, and which process is the running bed.
//
// It starts and stops nothing.
package state
