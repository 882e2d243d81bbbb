package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/status"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// serve is the agent of a node with the identity, to operators of the authority.
func serve(t *testing.T, identity stores.Identity, operators pki.Authority, handler http.Handler) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server.TLSConfig(func() (stores.Facing, error) {
		return stores.Facing{Identity: identity, Trusts: []*x509.Certificate{operators.Certificate()}}, nil
	}, time.Now))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return listener.Addr().String()
}

// operator is a client with the identity that trusts the authority.
func operator(identity stores.Identity, trusts pki.Authority) *client.Client {
	return client.New(client.Options{
		Dial: (&net.Dialer{}).DialContext,
		Credentials: func(context.Context) (mtls.Credentials, error) {
			return mtls.Credentials{Identity: server.Certificate(identity), Anchors: []*x509.Certificate{trusts.Certificate()}}, nil
		},
		Now:     time.Now,
		Timeout: 10 * time.Second,
	})
}

func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	var node status.Node
	node.Started(9, now, map[publication.Role]publication.RoleReport{"tls-9093": {Presents: "aa"}})
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, server.OperatorHandler(&node, http.NotFoundHandler()))
	c, at := operator(agenttest.Operator(t, ca, now), ca), client.Node{Address: address, Name: "node.example"}
	report, err := c.TLS(t.Context(), at)
	if err != nil || report.Revision != 9 || report.Roles["tls-9093"].Presents != "aa" {
		t.Errorf("report %+v, %v", report, err)
	}
	var state contract.BrokerState
	if err := c.State(t.Context(), at, contract.BrokerStatePath, &state); err != nil || state.State != contract.StateStarting {
		t.Errorf("state %+v, %v; want starting", state, err)
	}
	if readiness, err := c.Ready(t.Context(), at); err != nil || readiness.Ready || readiness.Reason != agent.ReasonStarting {
		t.Errorf("readiness %+v, %v; want that it starts", readiness, err)
	}
	node.Serving()
	if readiness, err := c.Ready(t.Context(), at); err != nil || !readiness.Ready {
		t.Errorf("readiness %+v, %v; want ready", readiness, err)
	}
}

func TestAgentWithAnExpiredLeafIsKnownByIt(t *testing.T) {
	t.Parallel()
	now := time.Now()
	past := now.Add(-48 * time.Hour)
	expired, ca := agenttest.Authority(t, "ca", past), agenttest.Authority(t, "ca", now)
	leaf := agenttest.Leaf(t, expired, "node", past, "node.example")
	address := serve(t, leaf, ca, server.OperatorHandler(&status.Node{}, http.NotFoundHandler()))
	c := operator(agenttest.Operator(t, ca, now), ca)
	if _, err := c.TLS(t.Context(), client.Node{Address: address, Name: "node.example", Leaves: []string{leaf.Fingerprint()}}); err != nil {
		t.Errorf("error %v, want an answer", err)
	}
	_, err := c.TLS(t.Context(), client.Node{Address: address, Name: "node.example"})
	if _, ok := errors.AsType[*client.UntrustedError](err); !ok {
		t.Errorf("error %v, want an UntrustedError when the leaf is not expected", err)
	}
}

func TestRefusalsAreTyped(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca, strangers := agenttest.Authority(t, "ca", now), agenttest.Authority(t, "other", now)
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, server.OperatorHandler(&status.Node{}, http.NotFoundHandler()))
	for name, identity := range map[string]stores.Identity{
		"an unknown authority": agenttest.Operator(t, strangers, now),
		"another name":         agenttest.Leaf(t, ca, "my-cluster-kafka", now),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := operator(identity, ca).State(t.Context(), client.Node{Address: address, Name: "node.example"}, contract.BrokerStatePath, new(any))
			if _, ok := errors.AsType[*client.RefusedError](err); !ok {
				t.Errorf("error %v, want a RefusedError", err)
			}
		})
	}
}

func TestSilenceIsUnreachable(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = operator(agenttest.Operator(t, ca, now), ca).TLS(ctx, client.Node{Address: silent.Addr().String(), Name: "node"})
	if _, ok := errors.AsType[*client.UnreachableError](err); !ok {
		t.Errorf("error %v, want an UnreachableError", err)
	}
}

func TestAnswersThatMeanNothingAreErrors(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	broken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != agent.TLSPath {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte("not JSON"))
	})
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, broken)
	c, at := operator(agenttest.Operator(t, ca, now), ca), client.Node{Address: address, Name: "node.example"}
	if report, err := c.TLS(t.Context(), at); err == nil {
		t.Errorf("report %+v, want an error", report)
	}
	_, err := c.Ready(t.Context(), at)
	if status, ok := errors.AsType[*client.StatusError](err); !ok || status.Status != http.StatusTeapot {
		t.Errorf("error %v, want a StatusError", err)
	}
}

func TestEveryQuestionIsAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, server.OperatorHandler(&status.Node{}, http.NotFoundHandler()))
	var dials atomic.Int32
	c := client.New(client.Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		Credentials: func(context.Context) (mtls.Credentials, error) {
			return mtls.Credentials{
				Identity: server.Certificate(agenttest.Operator(t, ca, now)), Anchors: []*x509.Certificate{ca.Certificate()},
			}, nil
		},
		Now: time.Now, Timeout: 10 * time.Second,
	})
	for range 3 {
		if _, err := c.TLS(t.Context(), client.Node{Address: address, Name: "node.example"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := dials.Load(); got != 3 {
		t.Errorf("%d connections for 3 questions", got)
	}
}

func TestAnswersThatAreTooLongAreNotRead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	padded := func(length int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			report := `{"revision":3}`
			_, _ = w.Write([]byte(report + strings.Repeat(" ", length-len(report))))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		roles   int
		read    bool
	}{
		"as long as it may be":                      {padded(publication.MaxAnswer), 4, true},
		"one byte longer":                           {padded(publication.MaxAnswer + 1), 4, false},
		"as long as that of many listeners may be":  {padded(publication.MaxReport(68)), 68, true},
		"longer than that of many listeners may be": {padded(publication.MaxReport(68) + 1), 68, false},
		"of a header that does not end": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1<<10))
			}
			_, _ = w.Write([]byte(`{"revision":3}`))
		}, 4, false},
		"of zeros that were compressed": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("the agent is asked to compress")
			}
			padded(publication.MaxAnswer)(w, r)
		}, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, c.handler)
			node := client.Node{Address: address, Name: "node.example", Roles: c.roles}
			report, err := operator(agenttest.Operator(t, ca, now), ca).TLS(t.Context(), node)
			if (err == nil) != c.read || c.read != (report.Revision == 3) {
				t.Errorf("revision %d, error %v; want read = %t", report.Revision, err, c.read)
			}
		})
	}
}

func TestAnAnswerThatIsTooLongIsSaidToBe(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<20))
	}))
	err := operator(agenttest.Operator(t, ca, now), ca).State(t.Context(), client.Node{Address: address, Name: "node.example"}, contract.BrokerStatePath, new(any))
	if long, ok := errors.AsType[*client.TooLongError](err); !ok || long.Path != contract.BrokerStatePath || long.Limit != publication.MaxAnswer {
		t.Errorf("error %v, want a TooLongError", err)
	}
}

func TestReportsWithMorePartsThanANodeHasAreNotKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	many := func(count int, part string) string {
		parts := make([]string, 0, count)
		for i := range count {
			parts = append(parts, strings.ReplaceAll(part, "#", strconv.Itoa(i)))
		}
		return strings.Join(parts, ",")
	}
	for name, c := range map[string]struct {
		report string
		names  string
	}{
		"as many roles as any node has":    {`{"roles":{` + many(128, `"#":{}`) + `}}`, ""},
		"one role more":                    {`{"roles":{` + many(128, `"#":{}`) + `},"unknown":["x"]}`, "more than 128 roles"},
		"as many roles as there is room":   {`{"roles":{` + many(5000, `"#":{}`) + `}}`, "more than 128 roles"},
		"as many publications":             {`{"loading":[` + many(20000, `{}`) + `]}`, "more than 64 publications"},
		"as many listeners in one of them": {`{"loading":[{"trust":{` + many(5000, `"#":[]`) + `}}]}`, "more than 128 roles"},
		"as many identities in what is mounted": {
			`{"mounted":{"identities":{` + many(5000, `"#":""`) + `}}}`, "more than 128 roles",
		},
		"as many certificates": {`{"certificates":{` + many(5000, `"#":""`) + `}}`, "more than 1024 certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(c.report))
			}))
			node := client.Node{Address: address, Name: "node.example"}
			report, err := operator(agenttest.Operator(t, ca, now), ca).TLS(t.Context(), node)
			if c.names == "" {
				if err != nil || len(report.Roles) != 128 {
					t.Errorf("%d roles, %v; want all", len(report.Roles), err)
				}
				return
			}
			if long, ok := errors.AsType[*client.TooLongError](err); !ok || !strings.Contains(long.Error(), c.names) || report.Roles != nil {
				t.Errorf("error %v, want one that names %q", err, c.names)
			}
		})
	}
}

func TestTextsOfAnswersAreCut(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	long := strings.Repeat("x", 8<<10)
	address := serve(t, agenttest.Leaf(t, ca, "node", now, "node.example"), ca, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == agent.ReadyPath {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"waitingFor":["` + long + `"],"reload":{"failure":"` + long + `"}}`))
	}))
	c, at := operator(agenttest.Operator(t, ca, now), ca), client.Node{Address: address, Name: "node.example"}
	report, err := c.TLS(t.Context(), at)
	if got := len(report.Reload.Failure); err != nil || got != excerpt.Foreign {
		t.Errorf("%d bytes of a failure are kept, %v; want %d", got, err, excerpt.Foreign)
	}
	readiness, err := c.Ready(t.Context(), at)
	if err != nil || len(readiness.WaitingFor) != 1 || len(readiness.WaitingFor[0]) != excerpt.Foreign {
		t.Errorf("readiness %+v, %v; want %d bytes of the reason", readiness, err, excerpt.Foreign)
	}
}
