// Package health asks the node's own server whether it serves, the way a peer
// would: over its listener, with the node's certificate, expecting the leaf the
// server was started with.
//
// It keeps one connection, and does not know what is done with the answer.
package health
