// Package serverlog passes the server's output on and recognises in it how far
// the start has come, until the server runs; from then on it only copies.
//
// What it recognises is a hint: readiness is decided by asking the server. A
// user's logging configuration may well suppress every line it looks for.
package serverlog
