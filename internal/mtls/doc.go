// Package mtls is how one of our processes proves itself to a server or to an
// agent, and how it recognises the other side: by an anchor, or by the exact
// leaf it expects there, expired or not.
//
// It decides about one handshake. It does not know where credentials are kept,
// which anchors ought to be trusted, or what is asked over the connection.
package mtls
