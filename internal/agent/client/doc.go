// Package client asks the agents inside pods what their servers have loaded and
// whether they are ready. It is the operator's side of package server.
//
// Every question is a connection of its own: what a connection verified an hour
// ago proves nothing about now. It keeps no state and decides nothing.
package client
