package etcdload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
)

const endpoint = "example.com:2379"

func TestConnectionsAreCountedByWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	own := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: server.TLS.Certificates}
	nameless := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	distrustful := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), Certificates: server.TLS.Certificates}

	var dialer net.Dialer
	reached := func(ctx context.Context, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	nowhere := func(ctx context.Context, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:1")
	}
	verifying := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error {
		return x509.UnknownAuthorityError{}
	}}
	for name, c := range map[string]struct {
		options Options
		want    report.Handshakes
		reason  verdict.Reason
	}{
		"refused by a client that verifies by itself": {Options{Dial: reached, TLS: verifying}, report.Handshakes{Refused: 1}, verdict.UnknownAuthority},
		"accepted":                   {Options{Dial: reached, TLS: own}, report.Handshakes{Accepted: 1}, ""},
		"refused by the member":      {Options{Dial: reached, TLS: nameless}, report.Handshakes{Refused: 1}, verdict.AlertRequired},
		"refused by the client":      {Options{Dial: reached, TLS: distrustful}, report.Handshakes{Refused: 1}, verdict.UnknownAuthority},
		"a member that is not there": {Options{Dial: nowhere, TLS: own}, report.Handshakes{Unreachable: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			counts := newConnections()
			counts.setPhase(time.Now(), "phase")
			shown, err := connect(ctx, c.options, endpoint)
			counts.opened(time.Now(), endpoint, shown, err)
			seen, refusals := counts.record()
			presents := ""
			if c.want.Unreachable == 0 {
				presents = pki.FingerprintOf(server.Certificate()).String()
			}
			fresh, marks := counts.overTime()
			if leaf := fresh[0].Spans[0].Presented.Leaf; leaf != presents || len(marks) != 1 {
				t.Errorf("the member is seen to present %q, want %q, in phases %v", leaf, presents, marks)
			}
			c.want.Who, c.want.Node, c.want.Phase = Fresh, endpoint, "phase"
			if diff := cmp.Diff([]report.Handshakes{c.want}, seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var want []Refusal
			if c.reason != "" {
				want = []Refusal{{Who: Fresh, Endpoint: endpoint, Phase: "phase", Reason: c.reason}}
			}
			if diff := cmp.Diff(want, refusals, cmpopts.IgnoreFields(Refusal{}, "At"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMemberThatStopsRefusesNobody(t *testing.T) {
	t.Parallel()
	const clients = 20
	for name, test := range map[string]struct {
		apart   time.Duration
		refused int
	}{
		"all at once":         {0, 0},
		"one after the other": {time.Second, clients - 2},
		"within a second":     {time.Second / clients, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts, now := newConnections(), time.Now()
			for range clients {
				counts.note(now, Working, "member", io.EOF)
				now = now.Add(test.apart)
			}
			if _, refusals := counts.record(); len(refusals) != test.refused {
				t.Errorf("%d connections count as refused, want %d", len(refusals), test.refused)
			}
		})
	}
}

func TestClientsThatNoMemberAcceptsAreToldWhy(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	var dialer net.Dialer
	options := Defaults(clock.RealClock{})
	options.Endpoints = []string{endpoint}
	options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	options.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	if kind, reason := verdict.Of(Try(t.Context(), options)); kind != verdict.Refused || reason != verdict.UnknownAuthority {
		t.Errorf("they are told that the connection was %v, because of %q", kind, reason)
	}
}
