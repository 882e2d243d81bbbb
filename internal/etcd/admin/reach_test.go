package admin_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

const member = "my-cluster-0.my-cluster-peer.etcd.svc"

// certificate is one of a CA of its own, and what trusts it.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	ca, now := pkitest.CA(t, name, time.Now()), time.Now()
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	names, err := pki.NewSANs(name)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: name}, SANs: names, Usages: pki.BothUsages(), Validity: time.Hour, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate())
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}, pool
}

// listen serves TLS to clients that a pool verifies, and returns its address.
func listen(t *testing.T, served tls.Certificate, clients *x509.CertPool) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{served}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = connection.Read(make([]byte, 1))
				_ = connection.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func TestWhyAMemberGivesNoAnswerIsToldApart(t *testing.T) {
	t.Parallel()
	served, trusted := certificate(t, member)
	own, accepted := certificate(t, "operator")
	stranger, _ := certificate(t, "stranger")
	address := listen(t, served, accepted)
	closed := strings.TrimPrefix(free(t), "http://")
	cutOff := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("cut off") }}
	identity := func(name string, own tls.Certificate) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: trusted, Certificates: []tls.Certificate{own}}
	}
	for name, c := range map[string]struct {
		network  admin.Direct
		host     string
		identity *tls.Config
		want     error
	}{
		"it is reached":                      {host: address, identity: identity(member, own)},
		"it is reached without TLS":          {host: address},
		"nothing listens":                    {host: closed, identity: identity(member, own), want: admin.ErrNoConnection},
		"another member has its address":     {host: address, identity: identity("my-cluster-1.my-cluster-peer.etcd.svc", own), want: admin.ErrUntrusted},
		"its CA is another one":              {host: address, identity: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: member, RootCAs: accepted}, want: admin.ErrUntrusted},
		"the operator's CA is not trusted":   {host: address, identity: identity(member, stranger), want: admin.ErrRejected},
		"no such name":                       {host: "no..name:1", want: admin.ErrNameNotFound},
		"no DNS server answers for its name": {network: admin.Direct{Resolver: cutOff}, host: "my-cluster-0.example.com:1", want: admin.ErrNoNameServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.network.Reach(t.Context(), "https://"+c.host, c.identity); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestANameIsLookedUp(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]error{"127.0.0.1": nil, "no..name": admin.ErrNameNotFound} {
		if err := (admin.Direct{}).Resolve(t.Context(), host); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", host, err, want)
		}
	}
}
