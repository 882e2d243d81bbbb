package verdict_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const (
	host = "node-0.brokers.test.svc"
	day  = 24 * time.Hour
)

func authority(t *testing.T, commonName string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: commonName}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 10 * day, Now: time.Now().Add(-2 * day),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func leaf(t *testing.T, ca pki.Authority, name string, now time.Time) tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	sans, err := pki.NewSANs(name)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "node"}, SANs: sans, Usages: pki.BothUsages(), Validity: day, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key.Signer()}
}

func pool(ca pki.Authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.Certificate())
	return p
}

// serve answers every connection with what handle does, until the test ends.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(conn)
		}
	}()
	return listener.Addr().String()
}

// echo speaks TLS and sends one byte back, as a server completes a request.
func echo(config *tls.Config) func(net.Conn) {
	return func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		secured := tls.Server(conn, config)
		_, _ = io.CopyN(secured, secured, 1)
	}
}

// attempt does all that a fresh connection does.
func attempt(ctx context.Context, address string, config *tls.Config) error {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

func TestVerdictOfRealHandshakes(t *testing.T) {
	t.Parallel()
	old, next := authority(t, "old"), authority(t, "new")
	now := time.Now()
	server := func(certificate tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{certificate}}
	}
	mutual := server(leaf(t, old, host, now))
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, pool(old)
	legacy := mutual.Clone()
	legacy.MaxVersion = tls.VersionTLS12
	client := func(ca pki.Authority, certificates ...tls.Certificate) *tls.Config {
		config := &tls.Config{RootCAs: pool(ca), ServerName: host}
		if len(certificates) > 0 {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificates[0], nil }
		}
		return config
	}
	cases := map[string]struct {
		server  func(net.Conn)
		client  *tls.Config
		verdict verdict.Verdict
		reason  verdict.Reason
	}{
		"both sides accept each other": {
			server: echo(mutual), client: client(old, leaf(t, old, host, now)),
			verdict: verdict.Accepted,
		},
		"the client does not know the server's authority": {
			server: echo(mutual), client: client(next),
			verdict: verdict.Refused, reason: verdict.UnknownAuthority,
		},
		"the server's certificate has expired": {
			server: echo(server(leaf(t, old, host, now.Add(-day-time.Hour)))), client: client(old),
			verdict: verdict.Refused, reason: verdict.Expired,
		},
		"the server's certificate is for another name": {
			server: echo(server(leaf(t, old, "node-1.brokers.test.svc", now))), client: client(old),
			verdict: verdict.Refused, reason: verdict.NameMismatch,
		},
		"the server wants a certificate and gets none": {
			server: echo(mutual), client: client(old),
			verdict: verdict.Refused, reason: verdict.AlertRequired,
		},
		"the server does not know the client's authority, and says so after the handshake": {
			server: echo(mutual), client: client(old, leaf(t, next, host, now)),
			verdict: verdict.Refused, reason: verdict.AlertUnknownCA,
		},
		"the server refuses the client within the handshake of TLS 1.2": {
			server: echo(legacy), client: client(old, leaf(t, next, host, now)),
			verdict: verdict.Refused, reason: verdict.AlertUnknownCA,
		},
		"the client's certificate has expired": {
			server: echo(mutual), client: client(old, leaf(t, old, host, now.Add(-day-time.Hour))),
			verdict: verdict.Refused, reason: verdict.AlertExpired,
		},
		"the server does not speak TLS": {
			server:  func(conn net.Conn) { _, _ = conn.Write([]byte("220 hello there\r\n")) },
			client:  client(old),
			verdict: verdict.Refused, reason: verdict.NotTLS,
		},
		"the server hangs up in the middle of the handshake": {
			server:  func(conn net.Conn) { _ = conn.Close() },
			client:  client(old),
			verdict: verdict.Interrupted, reason: verdict.HandshakeReset,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := attempt(t.Context(), serve(t, c.server), c.client)
			if got, reason := verdict.Of(err); got != c.verdict || reason != c.reason {
				t.Errorf("verdict %q, reason %q of %v; want %q, %q", got, reason, err, c.verdict, c.reason)
			}
		})
	}
}

func TestNobodyThereIsNoTLSFailure(t *testing.T) {
	t.Parallel()
	gone := serve(t, func(conn net.Conn) {
		<-t.Context().Done() // a connection that nobody holds is closed by the garbage collector
		_ = conn.Close()
	})
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		address string
		reason  verdict.Reason
	}{
		"nothing listens":                     {address: closed, reason: verdict.ConnectionRefused},
		"a port that is bound, and no answer": {address: gone, reason: verdict.TimedOut},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := attempt(ctx, c.address, &tls.Config{RootCAs: x509.NewCertPool(), ServerName: host})
			if got, reason := verdict.Of(err); got != verdict.Unreachable || reason != c.reason {
				t.Errorf("verdict %q, reason %q of %v; want unreachable, %q", got, reason, err, c.reason)
			}
		})
	}
}

func TestTrustThatCannotBeReadIsARefusal(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("dialling: %w", &verdict.TrustError{Err: io.ErrUnexpectedEOF})
	if got, reason := verdict.Of(err); got != verdict.Refused || reason != verdict.NoTrust {
		t.Errorf("verdict %q, reason %q; want refused, no usable trust", got, reason)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause got lost")
	}
}
