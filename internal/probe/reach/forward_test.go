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
func forwarded(t *testing.T) (conn *streamConn, data, trouble net.Conn, over *tunnel) {
	t.Helper()
	near, far := net.Pipe()
	nearTrouble, farTrouble := net.Pipe()
	over = &tunnel{}
	conn = newStreamConn(over, stream{near}, stream{nearTrouble})
	t.Cleanup(func() {
		_ = conn.Close()
		_ = far.Close()
		_ = farTrouble.Close()
	})
	return conn, far, farTrouble, over
}

func TestForwardedBytesArriveBothWays(t *testing.T) {
	t.Parallel()
	conn, data, _, _ := forwarded(t)
	go func() { _, _ = io.CopyN(data, data, 4) }()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func TestAPortThatNobodyListensOnIsRefused(t *testing.T) {
	t.Parallel()
	conn, _, trouble, _ := forwarded(t)
	go func() {
		_, _ = io.WriteString(trouble, "an error occurred forwarding 9093: connection refused")
		_ = trouble.Close()
	}()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading gave %v, want that the connection was refused", err)
	}
}

func TestAServerThatHangsUpIsNoRefusal(t *testing.T) {
	t.Parallel()
	conn, data, trouble, _ := forwarded(t)
	_ = data.Close()
	_ = trouble.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading gave %v, want the end", err)
	}
}

func TestForwardedReadsKeepTheirDeadline(t *testing.T) {
	t.Parallel()
	conn, _, _, _ := forwarded(t)
	if err := conn.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading gave %v, want that the deadline passed", err)
	}
}

func TestClosingGivesBothStreamsBackOnce(t *testing.T) {
	t.Parallel()
	conn, _, _, over := forwarded(t)
	for range 2 {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a closed connection can be read")
	}
	over.mu.Lock()
	defer over.mu.Unlock()
	if over.removed != 2 {
		t.Errorf("%d streams were given back, want 2", over.removed)
	}
}
