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

// maxResponse bounds the answer to a question that comes without a bound of its own, in
// bytes. Such questions are put to the server beside the one who asks.
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
	return c.RequestWithin(ctx, req, maxResponse)
}

// RequestWithin is Request with a bound on the answer, in bytes. Somebody who lies about
// how many things his answer describes makes the reader take some hundred times as much
// memory as that, until it finds that they are not there.
func (c *Conn) RequestWithin(ctx context.Context, req kmsg.Request, bytes int) (kmsg.Response, error) {
	body, err := c.Exchange(ctx, req, bytes)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("reading the answer to %s: body: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

// Exchange is RequestWithin for those who read the answer themselves: it returns what
// follows its header.
func (c *Conn) Exchange(ctx context.Context, req kmsg.Request, bytes int) ([]byte, error) {
	release, err := c.bind(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	c.correlation++
	if _, err := c.conn.Write(c.formatter.AppendRequest(nil, req, c.correlation)); err != nil {
		return nil, fmt.Errorf("sending %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	message, err := c.receive(bytes)
	if err != nil {
		return nil, fmt.Errorf("receiving the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	body, err := bodyOf(message, c.correlation, req.ResponseKind())
	if err != nil {
		return nil, fmt.Errorf("reading the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return body, nil
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

func (c *Conn) receive(most int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if int64(size) > int64(most) {
		return nil, fmt.Errorf("%d bytes, more than %d: %w", size, most, errTooLarge)
	}
	// What is announced need not come: room is made for what does.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, c.conn, int64(size)); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// bodyOf reads the header of an answer without its length prefix, and returns what
// follows it.
func bodyOf(message []byte, correlation int32, kind kmsg.Response) ([]byte, error) {
	reader := kbin.Reader{Src: message}
	if got := reader.Int32(); reader.Ok() && got != correlation {
		return nil, errCorrelation
	}
	if kind.IsFlexible() && kind.Key() != apiVersionsKey {
		SkipTags(&reader)
	}
	if !reader.Ok() {
		return nil, fmt.Errorf("header: %w", kbin.ErrNotEnoughData)
	}
	return reader.Src, nil
}

// SkipTags reads past tagged fields. It ends with the input, however many were announced.
func SkipTags(reader *kbin.Reader) {
	for left := reader.Uvarint(); left > 0 && reader.Ok(); left-- {
		reader.Uvarint() // the tag's key
		reader.Span(int(reader.Uvarint()))
	}
}
