package local

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
)

// Client asks the server over one connection that it keeps. It is not for
// concurrent use.
type Client struct {
	server Server
	conn   *wire.Conn
}

// NewClient makes a client; it connects to nobody yet.
func NewClient(server Server) *Client { return &Client{server: server} }

// Close ends the connection, if there is one. The next question opens another.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

// ask asks one question. A connection that was kept may have been closed for
// being idle: then another is opened.
func (c *Client) ask(ctx context.Context, question Question) error {
	ctx, cancel := context.WithTimeout(ctx, c.server.Limit)
	defer cancel()
	if c.conn != nil {
		err := question(ctx, c.conn)
		if isAnswer(err) {
			return err
		}
		if err = errors.Join(err, c.Close()); ctx.Err() != nil {
			return err
		}
	}
	var answer error
	conn, err := c.server.Open(ctx, func(ctx context.Context, conn *wire.Conn) error {
		if answer = question(ctx, conn); isAnswer(answer) {
			return nil // the connection is good
		}
		return answer
	})
	if err != nil {
		return err
	}
	c.conn = conn
	return answer
}

// isAnswer reports whether the server has answered, be it with an error.
func isAnswer(err error) bool {
	_, kafka := errors.AsType[*kerr.Error](err)
	return err == nil || kafka
}
