package openssl

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// relay is a door on this machine to one connection that is open already: the
// way to a broker may be one that only this process knows.
type relay struct {
	listener net.Listener
	raw      net.Conn
	carrying sync.WaitGroup
}

// openRelay owns the connection from here on.
func openRelay(ctx context.Context, raw net.Conn) (*relay, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = raw.Close() // it was for nothing
		return nil, fmt.Errorf("opening a door for openssl: %w", err)
	}
	r := &relay{listener: listener, raw: raw}
	r.carrying.Go(r.serve)
	return r, nil
}

func (r *relay) address() string { return r.listener.Addr().String() }

// serve carries bytes between the first one who comes and the broker.
func (r *relay) serve() {
	near, err := r.listener.Accept()
	if err != nil {
		return // the door was closed before anybody came
	}
	defer func() { _ = near.Close() }() // both directions have ended
	var back sync.WaitGroup
	back.Go(func() { carry(near, r.raw) })
	carry(r.raw, near)
	back.Wait()
}

// carry ends a direction when its source has ended. What comes afterwards is still
// taken: a socket that is closed with unread bytes throws away what it has sent,
// and with it the alert that says why.
func carry(to, from net.Conn) {
	_, _ = io.Copy(to, from) // why it ended is seen by who speaks TLS
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	} else {
		_ = to.Close()
	}
	_, _ = io.Copy(io.Discard, from)
}

func (r *relay) close() {
	_ = r.listener.Close()
	_ = r.raw.Close()
	r.carrying.Wait()
}
