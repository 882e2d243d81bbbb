package admin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"
)

// fed is a connection on which what a reader holds arrives.
type fed struct {
	net.Conn
	io.Reader
}

func (f fed) Read(into []byte) (int, error) { return f.Reader.Read(into) }

func TestConnectionsEndBeforeAnAnswerThatIsTooLong(t *testing.T) {
	t.Parallel()
	short := []byte{0, 0, 0, 3, 1, 2, 3}
	for name, c := range map[string]struct {
		sent []byte
		long int
	}{
		"answers as long as they may be":        {slices.Repeat(short, 3), 0},
		"an answer without content":             {slices.Concat([]byte{0, 0, 0, 0}, short), 0},
		"the first":                             {[]byte{0, 0, 0, 4}, 4},
		"one after others":                      {slices.Concat(short, short, []byte{0, 0, 1, 0}), 256},
		"the longest that can be announced":     {[]byte{255, 255, 255, 255}, 1<<32 - 1},
		"a length of which only a part arrives": {slices.Concat(short, []byte{0, 0, 1}), 0},
	} {
		for how, arrives := range map[string]func(io.Reader) io.Reader{
			"at once":      func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"half by half": iotest.HalfReader,
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				conn := bound(fed{Reader: arrives(bytes.NewReader(c.sent))}, "node:1", 3)
				got, err := io.ReadAll(conn)
				long, refused := errors.AsType[*LongAnswerError](err)
				switch {
				case c.long == 0 && (err != nil || !bytes.Equal(got, c.sent)):
					t.Errorf("read %v, %v; want all of %v", got, err, c.sent)
				case c.long > 0 && (!refused || *long != LongAnswerError{Address: "node:1", Bytes: c.long, Limit: 3}):
					t.Errorf("error %v, want a LongAnswerError of %d bytes", err, c.long)
				case c.long > 0:
					if n, again := conn.Read(make([]byte, 8)); n > 0 || !errors.Is(again, err) {
						t.Errorf("read %d bytes after it, %v", n, again)
					}
				}
			})
		}
	}
}
