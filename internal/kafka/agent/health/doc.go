// Package health asks the node's own server whether it serves, the way a peer
// would: over its listener, with the node's certificate, expecting the leaf the
// server was started with.
//
// It asks often until the server serves and rarely afterwards, over one
// connection. It does not know what is done with the answer.
package health
