package mtls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
)

// serve accepts connections and finishes their handshakes.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
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
			go func() {
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func dialer(credentials mtls.Credentials) mtls.Dialer {
	return mtls.Dialer{
		Dial:    (&net.Dialer{}).DialContext,
		Source:  func(context.Context) (mtls.Credentials, error) { return credentials, nil },
		Now:     time.Now,
		Timeout: 10 * time.Second,
	}
}

func TestPeerIsRecognisedByAnchorOrByLeaf(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := now.Add(-48 * time.Hour)
	ours, strangers := agenttest.Authority(t, "ca", now), agenttest.Authority(t, "ca", now)
	expired := agenttest.Authority(t, "ca", past)
	current := agenttest.Leaf(t, ours, "node", now, "127.0.0.1")
	ended := agenttest.Leaf(t, expired, "node", past, "127.0.0.1")
	elsewhere := agenttest.Leaf(t, ours, "node", now, "127.0.0.9")
	for name, c := range map[string]struct {
		presents stores.Identity
		anchors  []*x509.Certificate
		leaves   []string
		accepted bool
	}{
		"a leaf that one of the anchors verifies":      {current, certificates(strangers, ours), nil, true},
		"a leaf that only another anchor verifies":     {current, certificates(strangers), nil, false},
		"a leaf for another name":                      {elsewhere, certificates(ours), nil, false},
		"a known leaf without any anchor":              {current, nil, []string{current.Fingerprint()}, true},
		"a known leaf for another name":                {elsewhere, nil, []string{elsewhere.Fingerprint()}, true},
		"a known leaf that has expired":                {ended, certificates(expired), []string{ended.Fingerprint()}, true},
		"an expired leaf that is not known":            {ended, certificates(expired), []string{current.Fingerprint()}, false},
		"nothing to recognise it by":                   {current, nil, nil, false},
		"a stranger's leaf where another one is known": {agenttest.Leaf(t, strangers, "node", now, "127.0.0.1"), nil, []string{current.Fingerprint()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, &tls.Config{Certificates: []tls.Certificate{server.Certificate(c.presents)}})
			conn, err := dialer(mtls.Credentials{Anchors: c.anchors}).
				Connect(t.Context(), address, mtls.Peer{Name: "127.0.0.1", Leaves: c.leaves})
			if err == nil {
				_ = conn.Close()
			}
			untrusted, ok := errors.AsType[*mtls.UntrustedError](err)
			if c.accepted != (err == nil) || !c.accepted && !ok {
				t.Fatalf("error %v, want accepted = %t, or else an UntrustedError", err, c.accepted)
			}
			if ok && untrusted.Presented != c.presents.Fingerprint() {
				t.Errorf("the error names leaf %s, want %s", untrusted.Presented, c.presents.Fingerprint())
			}
		})
	}
}

func certificates(authorities ...pki.Authority) []*x509.Certificate {
	list := []*x509.Certificate{}
	for _, a := range authorities {
		list = append(list, a.Certificate())
	}
	return list
}

func TestCredentialsAreReadForEachDial(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before, after := agenttest.Authority(t, "ca", now), agenttest.Authority(t, "ca", now)
	leaf := agenttest.Leaf(t, after, "node", now, "127.0.0.1")
	address := serve(t, &tls.Config{Certificates: []tls.Certificate{server.Certificate(leaf)}})
	current := mtls.Credentials{Anchors: certificates(before)}
	d := dialer(mtls.Credentials{})
	d.Source = func(context.Context) (mtls.Credentials, error) { return current, nil }
	if _, err := d.Connect(t.Context(), address, mtls.Peer{Name: "127.0.0.1"}); err == nil {
		t.Fatal("accepted, want a refusal before the new anchor is there")
	}
	current.Anchors = certificates(before, after)
	conn, err := d.Connect(t.Context(), address, mtls.Peer{Name: "127.0.0.1"})
	if err != nil {
		t.Fatalf("error %v, want none with the new anchor", err)
	}
	_ = conn.Close()
}

func TestNobodyThereIsUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, err = dialer(mtls.Credentials{}).Connect(t.Context(), address, mtls.Peer{Name: "127.0.0.1"})
	if _, ok := errors.AsType[*mtls.UnreachableError](err); !ok {
		t.Errorf("error %v, want an UnreachableError", err)
	}
}

func TestRefusalOfTheClientIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours, strangers := agenttest.Authority(t, "ca", now), agenttest.Authority(t, "other-ca", now)
	leaf := agenttest.Leaf(t, ours, "node", now, "127.0.0.1")
	roots := x509.NewCertPool()
	roots.AddCert(ours.Certificate())
	for name, version := range map[string]uint16{"at the handshake with TLS 1.2": tls.VersionTLS12, "at the first read with TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, &tls.Config{
				Certificates: []tls.Certificate{server.Certificate(leaf)}, ClientCAs: roots,
				ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: version,
			})
			conn, err := dialer(mtls.Credentials{
				Identity: server.Certificate(agenttest.Operator(t, strangers, now)), Anchors: certificates(ours),
			}).Connect(t.Context(), address, mtls.Peer{Name: "127.0.0.1"})
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				err = mtls.Classify(address, err)
				_ = conn.Close()
			}
			if _, ok := errors.AsType[*mtls.RefusedError](err); !ok {
				t.Errorf("error %v, want a RefusedError", err)
			}
		})
	}
}

func TestErrorsDoNotQuoteTheOtherSideAtAnyLength(t *testing.T) {
	t.Parallel()
	long := errors.New(strings.Repeat("x", 64<<10))
	for _, err := range []error{
		&mtls.UnreachableError{Address: "a:1", Err: long},
		&mtls.UntrustedError{Peer: "a", Presented: "0a", Err: long},
		&mtls.RefusedError{Address: "a:1", Err: long},
	} {
		if got := len(err.Error()); got > 2*excerpt.Foreign {
			t.Errorf("%T says %d bytes", err, got)
		}
	}
}
