package health_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/health"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/mtls"
)

// kafka is a server that answers from a script, and a probe of it.
type kafka struct {
	*health.Probe

	dials atomic.Int32
	// ports are those the probe asked for.
	ports chan string
}

func probe(t *testing.T, role string, answer wiretest.Answer, leaf func(presented string) string) *kafka {
	t.Helper()
	now := time.Now()
	identity := agenttest.Leaf(t, agenttest.Authority(t, "ca", now), "my-cluster-kafka", now, "node")
	certificate := server.Certificate(identity)
	address := wiretest.Serve(t, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert}, answer)
	k := &kafka{ports: make(chan string, 8)}
	k.Probe = health.NewProbe(local.Server{
		Host: "127.0.0.1", NodeID: 4, Roles: []string{role}, Now: time.Now, Limit: 5 * time.Second,
		Known: func() local.Known {
			return local.Known{Leaves: []string{leaf(identity.Fingerprint())}, Identities: []tls.Certificate{certificate}}
		},
		Dial: func(ctx context.Context, network, wanted string) (net.Conn, error) {
			k.dials.Add(1)
			_, port, err := net.SplitHostPort(wanted)
			if err != nil {
				return nil, err
			}
			k.ports <- port
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func asPresented(fingerprint string) string { return fingerprint }

// cluster answers with the registered brokers, and knows DescribeCluster up to the version.
func cluster(newest int16, brokers ...kmsg.DescribeClusterResponseBroker) wiretest.Answer {
	return func(req kmsg.Request) kmsg.Response {
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest:
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: kmsg.Metadata.Int16(), MaxVersion: 13}, {ApiKey: kmsg.DescribeCluster.Int16(), MaxVersion: newest}}
			return resp
		case *kmsg.DescribeClusterRequest:
			if req.Version != min(newest, 2) || newest >= 2 && !req.IncludeFencedBrokers {
				return nil
			}
			resp := kmsg.NewPtrDescribeClusterResponse()
			resp.Brokers = brokers
			return resp
		default:
			return nil
		}
	}
}

func TestBrokerServesWhenItTakesPart(t *testing.T) {
	t.Parallel()
	other := kmsg.DescribeClusterResponseBroker{NodeID: 3}
	for name, c := range map[string]struct {
		answer wiretest.Answer
		want   error
	}{
		"registered and taking part":        {cluster(2, other, kmsg.DescribeClusterResponseBroker{NodeID: 4}), nil},
		"registered and still fenced":       {cluster(2, other, kmsg.DescribeClusterResponseBroker{NodeID: 4, IsFenced: true}), health.ErrFenced},
		"not registered":                    {cluster(2, other), health.ErrNotRegistered},
		"a server that knows newer answers": {cluster(3, other, kmsg.DescribeClusterResponseBroker{NodeID: 4}), nil},
		"Kafka 3.9, taking part":            {cluster(1, other, kmsg.DescribeClusterResponseBroker{NodeID: 4}), nil},
		"Kafka 3.9, not listed":             {cluster(1, other), health.ErrNotListed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := probe(t, contract.RoleBroker, c.answer, asPresented)
			for range 3 {
				if err := k.Check(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			}
			if got := k.dials.Load(); got != 1 {
				t.Errorf("%d connections, want one for all questions", got)
			}
			if port := <-k.ports; port != "9091" {
				t.Errorf("asked at port %s, want the replication listener", port)
			}
		})
	}
}

func TestControllerServesWhenItAnswers(t *testing.T) {
	t.Parallel()
	k := probe(t, contract.RoleController, func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.ApiVersionsRequest); !ok {
			return nil // a controller knows no other question without being asked for its kind
		}
		return kmsg.NewPtrApiVersionsResponse()
	}, asPresented)
	if err := k.Check(t.Context()); err != nil {
		t.Errorf("error %v, want none", err)
	}
	if port := <-k.ports; port != "9090" {
		t.Errorf("asked at port %s, want the control plane", port)
	}
}

func TestServerWithAnotherLeafDoesNotServe(t *testing.T) {
	t.Parallel()
	k := probe(t, contract.RoleController, func(kmsg.Request) kmsg.Response { return kmsg.NewPtrApiVersionsResponse() },
		func(string) string { return "of another leaf" })
	if _, ok := errors.AsType[*mtls.UntrustedError](k.Check(t.Context())); !ok {
		t.Error("accepted, want an UntrustedError: it presents what it was not started with")
	}
}

func TestLostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	k := probe(t, contract.RoleController, func(kmsg.Request) kmsg.Response {
		if asked.Add(1) == 2 {
			return nil
		}
		return kmsg.NewPtrApiVersionsResponse()
	}, asPresented)
	for i, want := range []bool{true, false, true} {
		if err := k.Check(t.Context()); (err == nil) != want {
			t.Errorf("check %d: error %v, want served = %t", i, err, want)
		}
	}
	if got := k.dials.Load(); got != 2 {
		t.Errorf("%d connections, want a second one after the loss", got)
	}
}
