// Package local asks the node's own server, over its own listeners: which
// dynamic settings it has, to set some, and what a handshake
// shows of a listener.
//
// It recognises the server by the leaves it is known to present and tries the
// identities that it may accept one after the other. It does not know which
// stores ought to be loaded, and it judges nothing of what it sees.
package local
