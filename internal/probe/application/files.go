package application

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// files are the mounted Secret over time. Every connection asks for what the directory
// holds at that moment.
type files struct {
	directory string
	clock     clock.PassiveClock

	mu sync.Mutex
	// protocol is the one at the start: a producer and a consumer speak one protocol for
	// as long as they live.
	protocol string
	// last is the last content that could be used, version the one last read.
	last    binding
	version string
	problem error
	// changes counts contents that could be used after the first.
	changes   uint64
	changedAt time.Time
}

// now reads the directory. What has been parsed before is not parsed again.
func (f *files) now() (binding, error) {
	found, err := read(f.directory)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		f.version, f.problem = "", err
	case found.version != f.version:
		f.version, f.problem = found.version, f.take(found)
	}
	if f.problem != nil {
		return binding{}, f.problem
	}
	return f.last, nil
}

// take keeps a content that can be used; f.mu is held.
func (f *files) take(found content) error {
	parsed, err := bind(f.directory, found)
	if err != nil {
		return err
	}
	switch {
	case f.protocol == "":
		f.protocol = parsed.protocol
	case f.protocol != parsed.protocol:
		return fault{
			file: fileProtocol, directory: f.directory, problem: "has another protocol than when the client started",
			remedy: "restart the pod, because a client keeps its protocol",
		}
	case f.last.version != parsed.version:
		f.changes++
		f.changedAt = f.clock.Now().UTC()
	}
	f.last = parsed
	return nil
}

// identity connects as the Secret says at each connection.
func (f *files) identity(start binding) probe.Identity {
	identity := probe.Identity{Listener: probe.Listener{
		Name: start.protocol, TLS: start.tls(), Bootstrap: strings.Join(start.addresses, ","),
	}}
	if start.tls() {
		identity.Trust = func(context.Context) (*x509.CertPool, error) {
			b, err := f.now()
			return b.roots, err
		}
		identity.Credential = func(context.Context) (*tls.Certificate, error) {
			b, err := f.now()
			return &b.certificate, err
		}
	}
	switch {
	case start.sasl():
		identity.Listener.Auth = probe.AuthSCRAM
		identity.LoginFrom = func(context.Context) (probe.Login, error) {
			b, err := f.now()
			return b.login, err
		}
	case len(start.certificate.Certificate) > 0:
		identity.Listener.Auth = probe.AuthTLS
	}
	return identity
}

// Nodes implements probe.Network: fresh connections go to the bootstrap addresses.
func (f *files) Nodes() []reach.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := make([]reach.Node, 0, len(f.last.addresses))
	for _, address := range f.last.addresses {
		nodes = append(nodes, reach.Node{Name: address, Host: address, Broker: true})
	}
	return nodes
}

// Dial implements probe.Network by the names that the cluster advertises.
func (f *files) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}

// check opens a fresh connection to a bootstrap address.
func (f *files) check(identity probe.Identity) probe.Attempt {
	return func(ctx context.Context, node reach.Node) (observe.Presented, error) {
		return identity.Check(ctx, f, node.Host)
	}
}
