// Package wiretest is a listener that answers Kafka requests from a script, for
// tests of what asks Kafka nodes.
package wiretest

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Answer makes the response to a request; nil ends the connection.
type Answer func(req kmsg.Request) kmsg.Response

var errUnknownRequest = errors.New("a request of an unknown kind")

// Serve answers on a loopback port until the test ends, and returns its address.
func Serve(tb testing.TB, config *tls.Config, answer Answer) string {
	tb.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = converse(conn, answer) // the asking side reports what is wrong
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func converse(conn net.Conn, answer Answer) error {
	for {
		var head [4]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(conn, body); err != nil {
			return err
		}
		req, correlation, err := parse(body)
		if err != nil {
			return err
		}
		resp := answer(req)
		if resp == nil {
			return io.EOF
		}
		resp.SetVersion(req.GetVersion())
		if _, err := conn.Write(Encode(resp, correlation)); err != nil {
			return err
		}
	}
}

func parse(body []byte) (kmsg.Request, int32, error) {
	reader := kbin.Reader{Src: body}
	req := kmsg.RequestForKey(reader.Int16())
	if req == nil {
		return nil, 0, errUnknownRequest
	}
	req.SetVersion(reader.Int16())
	correlation := reader.Int32()
	reader.NullableString()
	if req.IsFlexible() {
		kmsg.SkipTags(&reader)
	}
	return req, correlation, errors.Join(reader.Complete(), req.ReadFrom(reader.Src))
}

// Encode renders a response with its length and header.
func Encode(resp kmsg.Response, correlation int32) []byte {
	const apiVersions = 18 // has no flexible header
	message := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if resp.IsFlexible() && resp.Key() != apiVersions {
		message = append(message, 0)
	}
	message = resp.AppendTo(message)
	binary.BigEndian.PutUint32(message, uint32(len(message)-4))
	return message
}
