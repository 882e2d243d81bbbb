package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const brokerHost = "c-pool-0.c-kafka-brokers.ns.svc"

func makeCA(t *testing.T, commonName string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: commonName}, Key: pki.DefaultCAKey(pki.ECDSA),
		Validity: 24 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// crossed is the new authority as nodes use it that also present the old
// authority's signature of its key.
func crossed(t *testing.T, old, next pki.Authority) pki.Authority {
	t.Helper()
	cross, err := pki.CrossSign(old, next.Certificate(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.NewAuthority(next.Certificate(), next.Key(), cross)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

// certificateOf issues a leaf and what is presented with it.
func certificateOf(t *testing.T, ca pki.Authority, usage pki.Usage, names ...string) tls.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "someone"}, SANs: sans, Usages: []pki.Usage{usage},
		Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	certificate := tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key.Signer()}
	for _, link := range ca.Presents() {
		certificate.Certificate = append(certificate.Certificate, link.Raw)
	}
	return certificate
}

// loopback is a network in which every name leads to one server.
type loopback struct{ address string }

func (l loopback) Nodes() []reach.Node {
	return []reach.Node{{Name: "c-pool-0", Host: brokerHost, Address: "127.0.0.1", Ready: true, Broker: true}}
}

func (l loopback) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, l.address)
}

// broker is a server that answers any request as Kafka answers ApiVersions, as
// far as the probe reads it.
func broker(t *testing.T, config *tls.Config) loopback {
	t.Helper()
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
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
			go answer(conn, config)
		}
	}()
	return loopback{address: listener.Addr().String()}
}

func answer(conn net.Conn, config *tls.Config) {
	defer func() { _ = conn.Close() }()
	if config != nil {
		conn = tls.Server(conn, config)
	}
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	reply := binary.BigEndian.AppendUint32(nil, 10)
	reply = append(reply, head[8:12]...) // the correlation of the request
	_, _ = conn.Write(append(reply, make([]byte, 6)...))
	_, _ = io.Copy(io.Discard, conn) // the client hangs up first
}

// store is a Secret that a test changes.
type store struct {
	data    map[string][]byte
	version int
}

func (s *store) source(context.Context) (map[string][]byte, string, error) {
	return s.data, strconv.Itoa(s.version), nil
}

func (s *store) set(data map[string][]byte) {
	s.data = data
	s.version++
}

func bundleOf(authorities ...pki.Authority) []byte {
	var certificates []*x509.Certificate
	for _, authority := range authorities {
		certificates = append(certificates, authority.Certificate())
	}
	return pki.EncodeBundle(certificates...)
}

// TestKindsOfTrustThroughAReplacement takes each kind of client through the
// steps of a key replacement, each step with what Secrets then hold.
func TestKindsOfTrustThroughAReplacement(t *testing.T) {
	t.Parallel()
	old, next := makeCA(t, "old"), makeCA(t, "new")
	cross := crossed(t, old, next)
	servers := map[string]loopback{
		"old":          broker(t, serverConfig(certificateOf(t, old, pki.ServerAuth, brokerHost))),
		"new":          broker(t, serverConfig(certificateOf(t, next, pki.ServerAuth, brokerHost))),
		"new, crossed": broker(t, serverConfig(certificateOf(t, cross, pki.ServerAuth, brokerHost))),
	}
	// What applications read: before, while both are needed (the one that all
	// nodes present is first), flipped, and at the end.
	before := map[string][]byte{"ca.crt": bundleOf(old)}
	both := map[string][]byte{"ca.crt": bundleOf(old, next)}
	flipped := map[string][]byte{"ca.crt": bundleOf(next, old)}
	split := map[string][]byte{"ca.crt": bundleOf(next), "ca-2026.crt": bundleOf(old)}
	after := map[string][]byte{"ca.crt": bundleOf(next)}
	kinds := map[string]func(Source) Trust{
		KindPinned: func(s Source) Trust {
			trust, err := Pin(t.Context(), s, Bundle)
			if err != nil {
				t.Fatal(err)
			}
			return trust
		},
		KindBundle: func(s Source) Trust { return Reread(s, Bundle) },
		KindFirst:  func(s Source) Trust { return Reread(s, First) },
		KindAll:    func(s Source) Trust { return Reread(s, All) },
	}
	type row struct {
		step   string
		data   map[string][]byte
		server string
		accept map[string]bool
	}
	rows := []row{
		{"before", before, "old", accepts(KindPinned, KindBundle, KindFirst, KindAll)},
		{"a naive replacement cuts off everybody", before, "new", accepts()},
		{"nodes still old while both are published", both, "old", accepts(KindPinned, KindBundle, KindFirst, KindAll)},
		{"new nodes before the flip, without a cross certificate", both, "new", accepts(KindBundle, KindAll)},
		{"new nodes before the flip, with it", both, "new, crossed", accepts(KindPinned, KindBundle, KindFirst, KindAll)},
		{"new nodes after the flip", flipped, "new, crossed", accepts(KindPinned, KindBundle, KindFirst, KindAll)},
		{"a late node after the flip", flipped, "old", accepts(KindPinned, KindBundle, KindAll)},
		{"the old under a dated key", split, "old", accepts(KindPinned, KindAll)},
		{"old left the application bundle", after, "new, crossed", accepts(KindPinned, KindBundle, KindFirst, KindAll)},
		{"no cross certificate any more", after, "new", accepts(KindBundle, KindFirst, KindAll)},
	}
	for kind, trustIn := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			secret := &store{data: before}
			identity := Identity{Listener: Listener{TLS: true}, Trust: trustIn(secret.source)}
			for _, row := range rows {
				secret.set(row.data)
				_, err := identity.Check(t.Context(), servers[row.server], brokerHost+":9093")
				got, reason := verdict.Of(err)
				want := verdict.Refused
				if row.accept[kind] {
					want = verdict.Accepted
				}
				if got != want {
					t.Errorf("%s: %s (%s: %v), want %s", row.step, got, reason, err, want)
				}
			}
		})
	}
}

func accepts(kinds ...string) map[string]bool {
	set := map[string]bool{}
	for _, kind := range kinds {
		set[kind] = true
	}
	return set
}

func serverConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}

func TestClientCertificateIsRefusedByTheServerOnly(t *testing.T) {
	t.Parallel()
	servers, clients, strangers := makeCA(t, "servers"), makeCA(t, "clients"), makeCA(t, "strangers")
	config := serverConfig(certificateOf(t, servers, pki.ServerAuth, brokerHost))
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	config.ClientCAs.AddCert(clients.Certificate())
	network := broker(t, config)
	trust, err := Fixed(bundleOf(servers))
	if err != nil {
		t.Fatal(err)
	}
	present := func(ca pki.Authority) Credential {
		certificate := certificateOf(t, ca, pki.ClientAuth)
		return func(context.Context) (*tls.Certificate, error) { return &certificate, nil }
	}
	cases := map[string]struct {
		credential Credential
		verdict    verdict.Verdict
		reason     verdict.Reason
	}{
		"signed by the clients CA":        {credential: present(clients), verdict: verdict.Accepted},
		"signed by another CA":            {credential: present(strangers), verdict: verdict.Refused, reason: verdict.AlertUnknownCA},
		"no certificate at all":           {verdict: verdict.Refused, reason: verdict.AlertRequired},
		"a certificate that is not there": {credential: missing, verdict: verdict.Refused, reason: verdict.NoTrust},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			identity := Identity{Listener: Listener{TLS: true, Auth: AuthTLS}, Trust: trust, Credential: c.credential}
			shown, err := identity.Check(t.Context(), network, brokerHost+":9093")
			if got, reason := verdict.Of(err); got != c.verdict || reason != c.reason {
				t.Errorf("%s (%s: %v), want %s (%s)", got, reason, err, c.verdict, c.reason)
			}
			if c.reason != verdict.NoTrust && shown.Issuer != "servers" {
				t.Errorf("the leaf shown was issued by %q, want servers", shown.Issuer)
			}
		})
	}
}

func missing(context.Context) (*tls.Certificate, error) { return nil, errors.New("no such file") }

func TestCheckWithoutTLS(t *testing.T) {
	t.Parallel()
	shown, err := Identity{}.Check(t.Context(), broker(t, nil), brokerHost+":9092")
	if err != nil || shown != (observe.Presented{}) {
		t.Errorf("shown %+v, error %v; want nothing and none", shown, err)
	}
}

func TestARefusedClientStillSeesWhatTheServerPresents(t *testing.T) {
	t.Parallel()
	old, next := makeCA(t, "old"), makeCA(t, "new")
	network := broker(t, serverConfig(certificateOf(t, crossed(t, old, next), pki.ServerAuth, brokerHost)))
	trust, err := Fixed(bundleOf(makeCA(t, "stranger")))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := Identity{Listener: Listener{TLS: true}, Trust: trust}.Check(t.Context(), network, brokerHost+":9093")
	if err == nil {
		t.Fatal("a client that trusts a stranger was accepted")
	}
	if shown.Issuer != "new" || shown.Chain != 1 || len(shown.Leaf) != 64 {
		t.Errorf("shown %+v, want a leaf of new with one cross certificate", shown)
	}
}

func TestTrustIsParsedOnlyWhenTheSecretChanges(t *testing.T) {
	t.Parallel()
	secret := &store{data: map[string][]byte{"ca.crt": bundleOf(makeCA(t, "one"))}}
	trust := Reread(secret.source, Bundle)
	first, err := trust(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := trust(t.Context())
	if err != nil || again != first {
		t.Errorf("the same Secret was parsed twice, error %v", err)
	}
	secret.set(map[string][]byte{"ca.crt": bundleOf(makeCA(t, "two"))})
	if changed, err := trust(t.Context()); err != nil || changed == first {
		t.Errorf("the change was not seen, error %v", err)
	}
	secret.set(nil)
	if _, err := trust(t.Context()); !errors.Is(err, errNoAuthority) {
		t.Errorf("an empty Secret gave %v, want %v", err, errNoAuthority)
	}
}

func TestAllTakesEveryCertificateKeyInOrder(t *testing.T) {
	t.Parallel()
	data := map[string][]byte{
		"ca.crt": []byte("3"), "ca-2026.crt": []byte("1"), "ca-2026.key": []byte("no"), "ca.p12": []byte("no"), "ca-2027.crt": []byte("2"),
	}
	if diff := cmp.Diff("123", string(bytes.Join(All(data), nil))); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
}

func FuzzTrustNeverPanicsAndNeverTakesNothing(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("not PEM"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, choose := range []Choice{Bundle, First, All} {
			pool, err := poolOf(choose(map[string][]byte{"ca.crt": text}))
			if err == nil && pool.Equal(x509.NewCertPool()) {
				t.Error("trust without a single authority")
			}
		}
	})
}
