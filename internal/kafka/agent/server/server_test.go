package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	agentserver "github.com/keyturn/keyturn/internal/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/status"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// served is a server whose mounts can be exchanged.
type served struct {
	address string

	mu     sync.Mutex
	facing stores.Facing
	err    error
}

func (a *served) face(facing stores.Facing, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facing, a.err = facing, err
}

func serve(t *testing.T, facing stores.Facing, node *status.Node) *served {
	t.Helper()
	a := &served{facing: facing}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server.TLSConfig(func() (stores.Facing, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.facing, a.err
	}, time.Now))
	if err != nil {
		t.Fatal(err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
	s := &http.Server{Handler: server.OperatorHandler(node, metrics), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	a.address = listener.Addr().String()
	return a
}

// ask sends one request with the identity over a connection of its own. The leaf
// that the agent presents is returned; whether it is the right one is for the
// client's tests.
func (a *served) ask(t *testing.T, path string, identity stores.Identity) (status int, body, presented string, err error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&tls.Dialer{Config: &tls.Config{
				InsecureSkipVerify: true,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					certificate := tls.Certificate{}
					if len(identity.Chain) > 0 {
						certificate = server.Certificate(identity)
					}
					return &certificate, nil
				},
				VerifyConnection: func(state tls.ConnectionState) error {
					presented = pki.FingerprintOf(state.PeerCertificates[0]).String()
					return nil
				},
			}}).DialContext(ctx, network, address)
			return conn, err
		},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", presented, err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), presented, errors.Join(err, resp.Body.Close())
}

func anchors(authorities ...pki.Authority) []*x509.Certificate {
	list := []*x509.Certificate{}
	for _, a := range authorities {
		list = append(list, a.Certificate())
	}
	return list
}

func TestOnlyTheOperatorIsAnswered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := now.Add(-48 * time.Hour)
	ours, strangers := agenttest.Authority(t, "ca", now), agenttest.Authority(t, "ca", now)
	expired := agenttest.Authority(t, "ca", past)
	known := agenttest.Operator(t, expired, past)
	successor := agenttest.Authority(t, "ca v1", now)
	cross, err := pki.CrossSign(ours, successor.Certificate(), now)
	if err != nil {
		t.Fatal(err)
	}
	crossed := agenttest.Operator(t, successor, now)
	crossed.Chain = append(crossed.Chain, cross)
	a := serve(t, stores.Facing{
		Identity:  agenttest.Leaf(t, ours, "my-cluster-kafka", now, "node"),
		Trusts:    anchors(ours, expired),
		Operators: []string{known.Fingerprint()},
	}, &status.Node{})
	const noAnswer = 0
	for name, c := range map[string]struct {
		identity stores.Identity
		status   int
	}{
		"the operator": {agenttest.Operator(t, ours, now), http.StatusOK},
		"the operator with an expired leaf that is known": {known, http.StatusOK},
		"the operator with an expired leaf":               {agenttest.Operator(t, expired, past), noAnswer},
		"the operator through a cross certificate":        {crossed, http.StatusOK},
		"the operator of an unknown authority":            {agenttest.Operator(t, strangers, now), noAnswer},
		"a node of the same cluster":                      {agenttest.Leaf(t, ours, "my-cluster-kafka", now), http.StatusForbidden},
		"nobody":                                          {stores.Identity{}, noAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, _, err := a.ask(t, agent.TLSPath, c.identity)
			if status != c.status || (err != nil) != (c.status == noAnswer) {
				t.Errorf("status %d, body %q, error %v; want status %d", status, body, err, c.status)
			}
		})
	}
}

func TestNameAloneIsNotEnough(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours := agenttest.Authority(t, "ca", now)
	key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
	if err != nil {
		t.Fatal(err)
	}
	// A user may be called as the operator is; the organisation is the cluster's.
	leaf, err := ours.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: agent.OperatorCommonName}, Usages: pki.BothUsages(), Validity: time.Hour, Now: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	a := serve(t, stores.Facing{Identity: agenttest.Leaf(t, ours, "node", now), Trusts: anchors(ours)}, &status.Node{})
	status, _, _, err := a.ask(t, agent.TLSPath, stores.Identity{Chain: []*x509.Certificate{leaf}, Key: key})
	if status != http.StatusForbidden {
		t.Errorf("status %d, %v; want it forbidden", status, err)
	}
}

func TestNewAnchorAndLeafCountFromTheNextHandshake(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before, after := agenttest.Authority(t, "ca v0", now), agenttest.Authority(t, "ca v1", now)
	first, second := agenttest.Leaf(t, before, "node", now), agenttest.Leaf(t, after, "node", now)
	operator := agenttest.Operator(t, after, now)
	a := serve(t, stores.Facing{Identity: first, Trusts: anchors(before)}, &status.Node{})
	if status, _, presented, err := a.ask(t, agent.TLSPath, operator); err == nil || presented != first.Fingerprint() {
		t.Fatalf("status %d, presented %s; want a refusal by leaf %s", status, presented, first.Fingerprint())
	}
	a.face(stores.Facing{Identity: second, Trusts: anchors(before, after)}, nil)
	status, _, presented, err := a.ask(t, agent.TLSPath, operator)
	if err != nil || status != http.StatusOK || presented != second.Fingerprint() {
		t.Errorf("status %d, %v, presented %s; want an answer by leaf %s", status, err, presented, second.Fingerprint())
	}
}

func TestNothingToPresentIsNoHandshake(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours := agenttest.Authority(t, "ca", now)
	a := serve(t, stores.Facing{}, &status.Node{})
	a.face(stores.Facing{}, errors.New("not mounted yet"))
	if status, _, _, err := a.ask(t, agent.TLSPath, agenttest.Operator(t, ours, now)); err == nil {
		t.Errorf("status %d, want no handshake", status)
	}
}

func TestAnswersToTheOperator(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ours := agenttest.Authority(t, "ca", now)
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var node status.Node
	node.Started(5, started, map[publication.Role]publication.RoleReport{"tls-9093": {Trusts: []string{"aa"}, Presents: "bb", NotAfter: started}})
	a := serve(t, stores.Facing{Identity: agenttest.Leaf(t, ours, "node", now), Trusts: anchors(ours)}, &node)
	for path, c := range map[string]struct {
		status int
		body   string
	}{
		agent.TLSPath: {http.StatusOK, `{"revision":5,"startedAt":"2026-01-02T03:04:05Z","roles":` +
			`{"tls-9093":{"trusts":["aa"],"presents":"bb","notAfter":"2026-01-02T03:04:05Z"}}}`},
		contract.BrokerStatePath: {http.StatusOK, `{"brokerState":1}`},
		agent.ReadyPath:          {http.StatusServiceUnavailable, `{"ready":false,"reason":"ServerStarting"}`},
		agent.MetricsPath:        {http.StatusOK, "metrics"},
		"/v1/other":              {http.StatusNotFound, "404 page not found\n"},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			status, body, _, err := a.ask(t, path, agenttest.Operator(t, ours, now))
			if err != nil || status != c.status {
				t.Errorf("status %d, %v; want %d", status, err, c.status)
			}
			if diff := cmp.Diff(c.body, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeletLearnsReadinessOnly(t *testing.T) {
	t.Parallel()
	var node status.Node
	node.Waiting(agent.ReasonWaitingForMounts, []string{"anchor aa"})
	handler := agentserver.ProbeHandler(&node)
	get := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return recorder
	}
	for path, want := range map[string]int{
		agent.ReadyPath: http.StatusServiceUnavailable, agent.LivePath: http.StatusNoContent,
		agent.TLSPath: http.StatusNotFound, contract.BrokerStatePath: http.StatusNotFound, agent.MetricsPath: http.StatusNotFound,
	} {
		if got := get(path).Code; got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	var readiness agent.Readiness
	if err := json.Unmarshal(get(agent.ReadyPath).Body.Bytes(), &readiness); err != nil || readiness.WaitingFor[0] != "anchor aa" {
		t.Errorf("readiness %+v, %v; want what it waits for", readiness, err)
	}
	node.Started(1, time.Time{}, nil)
	node.Serving()
	if got := get(agent.ReadyPath).Code; got != http.StatusNoContent {
		t.Errorf("status %d of a node that serves, want %d", got, http.StatusNoContent)
	}
}
