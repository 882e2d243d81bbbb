package reach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forwarder opens connections to pods through the API server, over one tunnel
// per pod.
type forwarder struct {
	client    kubernetes.Interface
	config    *rest.Config
	namespace string
	requests  atomic.Uint64

	mu      sync.Mutex
	tunnels map[string]httpstream.Connection // by the pod's UID
}

func newForwarder(client kubernetes.Interface, config *rest.Config, namespace string) *forwarder {
	return &forwarder{
		client: client, config: config, namespace: namespace,
		tunnels: map[string]httpstream.Connection{},
	}
}

// Forward returns a dialer of ports of pods in a namespace, through the API server. Of a
// pod, it needs name and UID.
func Forward(client kubernetes.Interface, config *rest.Config, namespace string) func(ctx context.Context, pod Node, port string) (net.Conn, error) {
	return newForwarder(client, config, namespace).dial
}

func (f *forwarder) dial(ctx context.Context, node Node, port string) (net.Conn, error) {
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		conn, err := f.open(node, port)
		answers <- answer{conn, err}
	}()
	select {
	case got := <-answers:
		return got.conn, got.err
	case <-ctx.Done():
		go func() { // the tunnel knows no context: what still opens is closed
			if late := <-answers; late.conn != nil {
				_ = late.conn.Close()
			}
		}()
		return nil, fmt.Errorf("forwarding port %s of pod %s: %w", port, node.Name, ctx.Err())
	}
}

// open makes the pair of streams that the protocol wants for one connection.
func (f *forwarder) open(node Node, port string) (net.Conn, error) {
	tunnel, err := f.tunnel(node)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatUint(f.requests.Add(1), 10))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	trouble, err := tunnel.CreateStream(headers)
	if err != nil {
		f.forget(node)
		return nil, fmt.Errorf("forwarding port %s of pod %s: %w", port, node.Name, err)
	}
	_ = trouble.Close() // this side of it says nothing; the other is still read
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := tunnel.CreateStream(headers)
	if err != nil {
		tunnel.RemoveStreams(trouble)
		f.forget(node)
		return nil, fmt.Errorf("forwarding port %s of pod %s: %w", port, node.Name, err)
	}
	return newStreamConn(tunnel, data, trouble), nil
}

// tunnel returns the pod's tunnel, a new one if there is none.
func (f *forwarder) tunnel(node Node) (httpstream.Connection, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tunnel, ok := f.tunnels[node.UID]; ok {
		select {
		case <-tunnel.CloseChan():
			delete(f.tunnels, node.UID)
		default:
			return tunnel, nil
		}
	}
	dialer, err := f.dialer(node)
	if err != nil {
		return nil, err
	}
	tunnel, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("opening tunnel to pod %s: %w", node.Name, err)
	}
	f.tunnels[node.UID] = tunnel
	return tunnel, nil
}

// dialer speaks WebSocket, and SPDY with API servers that do not.
func (f *forwarder) dialer(node Node) (httpstream.Dialer, error) {
	target := f.client.CoreV1().RESTClient().Post().Resource("pods").
		Namespace(f.namespace).Name(node.Name).SubResource("portforward").URL()
	modern, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, f.config)
	if err != nil {
		return nil, fmt.Errorf("preparing tunnel to pod %s: %w", node.Name, err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(f.config)
	if err != nil {
		return nil, fmt.Errorf("preparing tunnel to pod %s: %w", node.Name, err)
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	return portforward.NewFallbackDialerForStreaming(modern, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func (f *forwarder) forget(node Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tunnel, ok := f.tunnels[node.UID]; ok {
		_ = tunnel.Close() // it is broken already
		delete(f.tunnels, node.UID)
	}
}

// streamConn is a forwarded stream as a connection: one end of a pipe, which
// knows deadlines as a stream does not.
type streamConn struct {
	net.Conn

	release func()
	closed  chan struct{}
	closing sync.Once
	// explained is closed when the kubelet has said its last word on the stream.
	explained chan struct{}
	refused   atomic.Bool
}

func newStreamConn(tunnel httpstream.Connection, data, trouble httpstream.Stream) *streamConn {
	near, far := net.Pipe()
	c := &streamConn{Conn: near, closed: make(chan struct{}), explained: make(chan struct{})}
	c.release = func() {
		_ = far.Close()
		_ = data.Reset()    // both directions end at once
		_ = trouble.Reset() // and no caller waits for the reason
		tunnel.RemoveStreams(data, trouble)
	}
	go c.listen(data, trouble)
	go carry(far, data)
	go carry(data, far)
	return c
}

// carry copies until one side ends, and ends the other.
func carry(to io.WriteCloser, from io.Reader) {
	_, _ = io.Copy(to, from) // why it ended is asked of the kubelet
	_ = to.Close()
}

// listen waits for the kubelet's word that it cannot reach the port: a server
// that is not there, and not one that hung up.
func (c *streamConn) listen(data, trouble httpstream.Stream) {
	defer close(c.explained)
	if n, _ := io.ReadFull(trouble, make([]byte, 1)); n > 0 {
		c.refused.Store(true)
		_ = data.Reset() // unblocks the reader
	}
}

// errRefused is what a direct connection would have met, to the letter: clients
// know it and try again.
var errRefused = &net.OpError{
	Op: "dial", Net: forwardedNetwork, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
}

// forwardedNetwork names the network in errors.
const forwardedNetwork = "port-forward"

// explain finds out whether a stream that ended never led anywhere.
func (c *streamConn) explain(err error) error {
	select {
	case <-c.explained:
	case <-c.closed:
	}
	if c.refused.Load() {
		return errRefused
	}
	return err
}

// Read implements net.Conn.
func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) && n == 0 {
		return 0, c.explain(err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *streamConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return n, c.explain(io.ErrUnexpectedEOF)
	}
	return n, err
}

// Close implements net.Conn.
func (c *streamConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.release()
	})
	return c.Conn.Close()
}
