package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
)

// session connects to a server that gives the answer.
func session(t *testing.T, answer wiretest.Answer) *wire.Conn {
	t.Helper()
	now := time.Now()
	leaf := server.Certificate(agenttest.Leaf(t, agenttest.Authority(t, "ca", now), "node", now, "127.0.0.1"))
	address := wiretest.Serve(t, &tls.Config{Certificates: []tls.Certificate{leaf}}, answer)
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // whom it reaches is not what is tested
	if err != nil {
		t.Fatal(err)
	}
	s := wire.New(conn, "test")
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func describeCluster(version int16) kmsg.Request {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.Version = version
	return req
}

func TestRequestsFollowEachOtherOnOneConnection(t *testing.T) {
	t.Parallel()
	s := session(t, func(req kmsg.Request) kmsg.Response {
		switch req.(type) {
		case *kmsg.DescribeClusterRequest:
			resp := kmsg.NewPtrDescribeClusterResponse()
			resp.ClusterID = "of the cluster"
			return resp
		default:
			return kmsg.NewPtrApiVersionsResponse()
		}
	})
	for range 2 {
		answer, err := s.Request(t.Context(), describeCluster(2))
		if err != nil {
			t.Fatal(err)
		}
		if resp, ok := answer.(*kmsg.DescribeClusterResponse); !ok || resp.ClusterID != "of the cluster" {
			t.Errorf("answer %+v, want the cluster's id", answer)
		}
		if _, err := s.Request(t.Context(), kmsg.NewPtrApiVersionsRequest()); err != nil {
			t.Errorf("a request without flexible header: %v", err)
		}
	}
}

func TestRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	s := session(t, func(kmsg.Request) kmsg.Response { <-held; return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Request(ctx, describeCluster(2))
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("error %v, want a timeout", err)
	}
}

func TestRequestRefusesTheAnswerToAnother(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	s := wire.New(ours, "test")
	t.Cleanup(func() { _, _ = s.Close(), theirs.Close() })
	go func() {
		buffer := make([]byte, 1<<10)
		if _, err := theirs.Read(buffer); err == nil {
			_, _ = theirs.Write(wiretest.Encode(kmsg.NewPtrDescribeClusterResponse(), 77))
		}
	}()
	if answer, err := s.Request(t.Context(), describeCluster(0)); err == nil {
		t.Errorf("answer %+v, want an error: it answers request 77", answer)
	}
}

func TestRequestRefusesAnswersThatAreTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length int
		read   bool
	}{
		"an answer that is as long as a quorum's": {512 << 10, true},
		"an answer of more than a mebibyte":       {1<<20 + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := session(t, func(kmsg.Request) kmsg.Response {
				resp := kmsg.NewPtrDescribeClusterResponse()
				resp.ClusterID = strings.Repeat("x", c.length)
				return resp
			})
			if _, err := s.Request(t.Context(), describeCluster(0)); (err == nil) != c.read {
				t.Errorf("error %v, want read = %t", err, c.read)
			}
		})
	}
}
