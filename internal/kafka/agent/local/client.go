package local

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/publication"
)

// Client asks the server over connections that it keeps, one to each listener
// that is asked. It is not for concurrent use.
type Client struct {
	server Server
	conns  map[publication.Role]*wire.Conn
}

// NewClient creates a client without connections.
func NewClient(server Server) *Client {
	return &Client{server: server, conns: map[publication.Role]*wire.Conn{}}
}

// Close ends the connections. The next question opens another.
func (c *Client) Close() error {
	var failures error
	for listener := range c.conns {
		failures = errors.Join(failures, c.drop(listener))
	}
	return failures
}

func (c *Client) drop(listener publication.Role) error {
	conn := c.conns[listener]
	delete(c.conns, listener)
	return conn.Close()
}

// ask asks one question. A connection that was kept may have been closed for
// being idle: then another is opened.
func (c *Client) ask(ctx context.Context, listener publication.Role, question Question) error {
	ctx, cancel := context.WithTimeout(ctx, c.server.Limit)
	defer cancel()
	if conn, kept := c.conns[listener]; kept {
		err := question(ctx, conn)
		if isAnswer(err) {
			return err
		}
		if err = errors.Join(err, c.drop(listener)); ctx.Err() != nil {
			return err
		}
	}
	var answer error
	conn, err := c.server.Open(ctx, listener, func(ctx context.Context, conn *wire.Conn) error {
		if answer = question(ctx, conn); isAnswer(answer) {
			return nil // the connection is good
		}
		return answer
	})
	if err != nil {
		return err
	}
	c.conns[listener] = conn
	return answer
}

// isAnswer reports whether the server has answered, be it with an error.
func isAnswer(err error) bool {
	_, kafka := errors.AsType[*kerr.Error](err)
	return err == nil || kafka
}
