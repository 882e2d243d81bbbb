package reach

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

// stream is one direction pair of a tunnel, over a pipe whose far end is the
// kubelet's.
type stream struct {
	net.Conn
}

func (s stream) Reset() error       { return s.Close() }
func (stream) Headers() http.Header { return nil }
func (stream) Identifier() uint32   { return 0 }

type tunnel struct {
	mu      sync.Mutex
	removed int
}

func (*tunnel) CreateStream(http.Header) (httpstream.Stream, error) { return nil, io.EOF }
func (*tunnel) Close() error                                        { return nil }
func (*tunnel) CloseChan() <-chan bool                              { return nil }
func (*tunnel) SetIdleTimeout(time.Duration)                        {}

func (t *tunnel) RemoveStreams(streams ...httpstream.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed += len(streams)
}

// forwarded is a connection, and the kubelet's ends of its two streams.
type forwarded struct {
	conn          *streamConn
	data, trouble net.Conn
	over          *tunnel
}

func forward(t *testing.T) forwarded {
	t.Helper()
	near, data := net.Pipe()
	nearTrouble, trouble := net.Pipe()
	f := forwarded{data: data, trouble: trouble, over: &tunnel{}}
	f.conn = newStreamConn(f.over, stream{near}, stream{nearTrouble})
	t.Cleanup(func() {
		_ = f.conn.Close()
		_ = data.Close()
		_ = trouble.Close()
	})
	return f
}

func TestForwardedBytesArriveBothWays(t *testing.T) {
	t.Parallel()
	f := forward(t)
	go func() { _, _ = io.CopyN(f.data, f.data, 4) }()
	if _, err := f.conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(f.conn, got); err != nil || string(got) != "ping" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestAPortThatNobodyListensOnIsRefused(t *testing.T) {
	t.Parallel()
	f := forward(t)
	go func() {
		_, _ = io.WriteString(f.trouble, "an error occurred forwarding 9093: connection refused")
		_ = f.trouble.Close()
	}()
	if _, err := f.conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading gave %v, want that the connection was refused", err)
	}
}

func TestAServerThatHangsUpIsNoRefusal(t *testing.T) {
	t.Parallel()
	f := forward(t)
	_ = f.data.Close()
	_ = f.trouble.Close()
	if _, err := f.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading gave %v, want the end", err)
	}
}

func TestForwardedReadsKeepTheirDeadline(t *testing.T) {
	t.Parallel()
	f := forward(t)
	if err := f.conn.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading gave %v, want that the deadline passed", err)
	}
}

func TestClosingGivesBothStreamsBackOnce(t *testing.T) {
	t.Parallel()
	f := forward(t)
	for range 2 {
		if err := f.conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.conn.Read(make([]byte, 1)); err == nil {
		t.Error("a closed connection can be read")
	}
	f.over.mu.Lock()
	defer f.over.mu.Unlock()
	if f.over.removed != 2 {
		t.Errorf("%d streams were given back, want 2", f.over.removed)
	}
}
