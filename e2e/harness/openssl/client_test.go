package openssl_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/keyturn/keyturn/e2e/harness/openssl"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const broker = "c-pool-0.c-kafka-brokers.ns.svc"

func newCA(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 24 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// crossed is an authority with the signature of its predecessor.
func crossed(t *testing.T, old, next pki.Authority) pki.Authority {
	t.Helper()
	cross, err := pki.CrossSign(old, next.Certificate(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewAuthority(next.Certificate(), next.Key(), cross)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func identity(t *testing.T, ca pki.Authority, usage pki.Usage) openssl.Identity {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	names, err := pki.NewSANs(broker)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "someone"}, SANs: names, Usages: []pki.Usage{usage}, Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return openssl.Identity{Chain: pki.EncodeBundle(append([]*x509.Certificate{leaf}, ca.Presents()...)...), Key: key.PEM()}
}

// serve answers requests as a broker does, and returns the way to it.
func serve(t *testing.T, ca pki.Authority, clients ...pki.Authority) openssl.Dial {
	t.Helper()
	own := identity(t, ca, pki.ServerAuth)
	pair, err := tls.X509KeyPair(own.Chain, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if len(clients) > 0 {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		for _, client := range clients {
			config.ClientCAs.AddCert(client.Certificate())
		}
	}
	return listen(t, func(conn net.Conn) { answer(tls.Server(conn, config)) })
}

func listen(t *testing.T, handle func(net.Conn)) openssl.Dial {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, listener.Addr().String())
	}
}

func answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	reply := binary.BigEndian.AppendUint32(nil, 10)
	reply = append(reply, head[8:12]...)
	_, _ = conn.Write(append(reply, make([]byte, 6)...))
	_, _ = io.Copy(io.Discard, conn)
}

func connect(t *testing.T, o openssl.Options, host string) (verdict.Verdict, verdict.Reason) {
	t.Helper()
	o.Folder, o.Name = t.TempDir(), "client"
	client, err := openssl.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return verdict.Of(client.Connect(ctx, host+":9093"))
}

func TestAnOpenSSLClientThroughAReplacement(t *testing.T) {
	t.Parallel()
	old, next := newCA(t, "v0"), newCA(t, "v1")
	both := pki.EncodeBundle(old.Certificate(), next.Certificate())
	cases := map[string]struct {
		server  pki.Authority
		trusts  []byte
		host    string
		verdict verdict.Verdict
		reason  verdict.Reason
	}{
		"old trust, old leaf":                        {server: old, trusts: pki.EncodeBundle(old.Certificate()), verdict: verdict.Accepted},
		"both trusted, new leaf":                     {server: next, trusts: both, verdict: verdict.Accepted},
		"old trust, new leaf with cross certificate": {server: crossed(t, old, next), trusts: pki.EncodeBundle(old.Certificate()), verdict: verdict.Accepted},
		"new trust, new leaf with cross certificate": {server: crossed(t, old, next), trusts: pki.EncodeBundle(next.Certificate()), verdict: verdict.Accepted},
		"old trust, new leaf alone":                  {server: next, trusts: pki.EncodeBundle(old.Certificate()), verdict: verdict.Refused, reason: verdict.UnknownAuthority},
		"new trust, old leaf":                        {server: old, trusts: pki.EncodeBundle(next.Certificate()), verdict: verdict.Refused, reason: verdict.UnknownAuthority},
		"another name":                               {server: old, trusts: both, host: "other.ns.svc", verdict: verdict.Refused, reason: verdict.NameMismatch},
		"nothing to trust":                           {server: old, trusts: []byte("no certificate"), verdict: verdict.Refused, reason: verdict.NoTrust},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := c.host
			if host == "" {
				host = broker
			}
			got, reason := connect(t, openssl.Options{Dial: serve(t, c.server), Authorities: c.trusts}, host)
			if got != c.verdict || reason != c.reason {
				t.Errorf("%s, %q, want %s, %q", got, reason, c.verdict, c.reason)
			}
		})
	}
}

func TestAServerThatRefusesALeafSaysSo(t *testing.T) {
	t.Parallel()
	old, next := newCA(t, "v0"), newCA(t, "v1")
	leaf := identity(t, old, pki.ClientAuth)
	for name, c := range map[string]struct {
		version openssl.Version
		accepts []pki.Authority
		own     *openssl.Identity
		verdict verdict.Verdict
	}{
		"accepted while both are trusted": {accepts: []pki.Authority{old, next}, own: &leaf, verdict: verdict.Accepted},
		"refused within the handshake":    {version: openssl.TLS12, accepts: []pki.Authority{next}, own: &leaf, verdict: verdict.Refused},
		"refused after the handshake":     {accepts: []pki.Authority{next}, own: &leaf, verdict: verdict.Refused},
		"refused because there is none":   {accepts: []pki.Authority{next}, verdict: verdict.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, reason := connect(t, openssl.Options{
				Dial: serve(t, old, c.accepts...), Authorities: pki.EncodeBundle(old.Certificate()), Identity: c.own, Version: c.version,
			}, broker)
			if got != c.verdict {
				t.Errorf("%s, %q, want %s", got, reason, c.verdict)
			}
		})
	}
}

func TestAServerThatIsNotThereIsNoRefusal(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "v0")
	authorities := pki.EncodeBundle(ca.Certificate())
	var dialer net.Dialer
	gone := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, "127.0.0.1:1")
	}
	if got, reason := connect(t, openssl.Options{Dial: gone, Authorities: authorities}, broker); got != verdict.Unreachable {
		t.Errorf("nobody there: %s, %q", got, reason)
	}
	hangsUp := listen(t, func(conn net.Conn) { _ = conn.Close() })
	if got, reason := connect(t, openssl.Options{Dial: hangsUp, Authorities: authorities}, broker); got != verdict.Interrupted {
		t.Errorf("hangs up: %s, %q", got, reason)
	}
}

func TestAServerThatSaysNothingTimesOut(t *testing.T) {
	t.Parallel()
	client, err := openssl.New(openssl.Options{
		Folder: t.TempDir(), Name: "client", Authorities: pki.EncodeBundle(newCA(t, "v0").Certificate()),
		Dial: listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got, reason := verdict.Of(client.Connect(ctx, broker+":9093")); got != verdict.Unreachable || reason != verdict.TimedOut {
		t.Errorf("%s, %q, want that it timed out", got, reason)
	}
}
