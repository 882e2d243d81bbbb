package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxResponse bounds an answer, in bytes. The longest that is asked for here describes
// a quorum: fewer than 64 bytes for each of its nodes.
const maxResponse = 1 << 20

// apiVersionsKey is the one request whose answers never carry a flexible
// header, so that any client can read them.
const apiVersionsKey = 18

var (
	errTooLarge    = errors.New("the answer is implausibly large")
	errCorrelation = errors.New("the answer belongs to another request")
)

// Conn sends one request after the other. It is not for concurrent use.
type Conn struct {
	conn        net.Conn
	formatter   *kmsg.RequestFormatter
	correlation int32
}

// New takes over a connection; the client id appears in Kafka's request log.
func New(conn net.Conn, clientID string) *Conn {
	return &Conn{conn: conn, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Request sends a request in the version it carries and reads the answer. After
// an error the connection is of no further use. An answer's own error codes are
// the caller's to read.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	release, err := c.bind(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	c.correlation++
	if _, err := c.conn.Write(c.formatter.AppendRequest(nil, req, c.correlation)); err != nil {
		return nil, fmt.Errorf("sending %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	body, err := c.receive()
	if err != nil {
		return nil, fmt.Errorf("receiving the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp := req.ResponseKind()
	if err := decode(body, c.correlation, resp); err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

// bind makes the connection obey the context for the length of one request.
func (c *Conn) bind(ctx context.Context) (func(), error) {
	deadline, _ := ctx.Deadline() // the zero time means none, here as there
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("setting the deadline: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = c.conn.SetDeadline(time.Unix(1, 0)) // the read that fails now reports it
	})
	return func() { stop() }, nil
}

func (c *Conn) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxResponse {
		return nil, fmt.Errorf("%d bytes: %w", size, errTooLarge)
	}
	// What is announced need not come: room is made for what does.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, c.conn, int64(size)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// decode reads one answer without its length prefix.
func decode(body []byte, correlation int32, into kmsg.Response) error {
	reader := kbin.Reader{Src: body}
	if got := reader.Int32(); reader.Ok() && got != correlation {
		return errCorrelation
	}
	if into.IsFlexible() && into.Key() != apiVersionsKey {
		skipTags(&reader)
	}
	if err := reader.Complete(); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := into.ReadFrom(reader.Src); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}

// skipTags reads past the tags of a header. It ends with the input, however many
// tags were announced.
func skipTags(reader *kbin.Reader) {
	for left := reader.Uvarint(); left > 0 && reader.Ok(); left-- {
		reader.Uvarint() // the tag's key
		reader.Span(int(reader.Uvarint()))
	}
}
