// Package enrollment decides what an etcd member may trust and present: which of the
// mounted CA certificates the pin of its pod accepts, and whether an answer to its request
// is usable.
//
// It takes what is mounted and the time, and does no I/O. It holds no private key.
package enrollment
