package controller

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	kafkaclient "github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/mtls"
)

func TestWhatIsWaitedForIsToldFromARefusal(t *testing.T) {
	t.Parallel()
	connecting := func(number syscall.Errno) error {
		return fmt.Errorf("asking: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", number)})
	}
	for name, c := range map[string]struct {
		failure error
		want    bool
	}{
		"an answer":                        {nil, false},
		"the time is over":                 {fmt.Errorf("asking: %w", context.DeadlineExceeded), true},
		"its time is over":                 {fmt.Errorf("asking: %w", context.Canceled), true},
		"nobody answers on the way":        {connecting(syscall.ETIMEDOUT), true},
		"a router gives up, after seconds": {connecting(syscall.EHOSTUNREACH), true},
		"nobody listens":                   {connecting(syscall.ECONNREFUSED), false},
		"a refusal":                        {errors.New("the certificate is not accepted"), false},
	} {
		if got := waitedFor(c.failure); got != c.want {
			t.Errorf("%s: it was waited for: %t, want %t", name, got, c.want)
		}
	}
}

// hanging is the address of somebody who takes connections and says nothing.
func hanging(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Whoever talks to agents, controllers and brokers has to tell silence from a refusal, by
// its own deadline and by that of who asks.
func TestWhoHangsIsWaitedForByEveryClient(t *testing.T) {
	t.Parallel()
	const short, long = 200 * time.Millisecond, time.Hour
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	identity := server.Certificate(agenttest.Operator(t, ca, now))
	credentials := func(context.Context) (mtls.Credentials, error) {
		return mtls.Credentials{Identity: identity, Anchors: []*x509.Certificate{ca.Certificate()}}, nil
	}
	agents := func(own time.Duration) kafkaclient.Client {
		return kafkaclient.New(agentclient.Options{Dial: (&net.Dialer{}).DialContext, Credentials: credentials, Now: time.Now, Timeout: own})
	}
	kafka := func(own time.Duration) *admin.Kafka {
		address := hanging(t)
		opened, err := admin.Open(admin.Options{
			Brokers: []string{address}, Controllers: []string{address}, Dial: (&net.Dialer{}).DialContext,
			Credentials: credentials, Now: time.Now, Timeout: own, DialTimeout: own,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.Close)
		return opened
	}
	node := agentclient.Node{Address: hanging(t), Name: "node"}
	for name, ask := range map[string]func(ctx context.Context, own time.Duration) error{
		"an agent is asked for its stores": func(ctx context.Context, own time.Duration) error {
			_, err := agents(own).TLS(ctx, node)
			return err
		},
		"an agent is asked for its server": func(ctx context.Context, own time.Duration) error {
			_, err := agents(own).BrokerState(ctx, node)
			return err
		},
		"controllers are asked": func(ctx context.Context, own time.Duration) error {
			_, err := kafka(own).Quorum(ctx)
			return err
		},
		"brokers are asked for partitions": func(ctx context.Context, own time.Duration) error {
			_, err := kafka(own).Partitions(ctx)
			return err
		},
		"brokers are asked for features": func(ctx context.Context, own time.Duration) error {
			_, err := kafka(own).Features(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			if err := ask(ctx, long); !waitedFor(err) {
				t.Errorf("when the time to ask is over it fails with %v, which is taken for a refusal", err)
			}
			hurried, end := context.WithCancel(t.Context())
			time.AfterFunc(short, end)
			if err := ask(hurried, long); !waitedFor(err) {
				t.Errorf("when it is hurried it fails with %v, which is taken for a refusal", err)
			}
			if err := ask(t.Context(), short); !waitedFor(err) {
				t.Errorf("when its own time is over it fails with %v, which is taken for a refusal", err)
			}
		})
	}
}

func TestAPassThatDecidesNothingLeavesWhatIsSaidOfCertificates(t *testing.T) {
	t.Parallel()
	kafka := smallKafka()
	for _, kind := range []condition.Type{conditionClusterCATrust, conditionClientsCATrust, conditionCertificatesValid} {
		kafka.Status.Conditions = append(kafka.Status.Conditions, condition.Condition{Type: kind, Status: condition.False, Reason: "x", Message: "y"})
	}
	if got := clusterOf(kafka, nil).writtenConditions(); len(got) != 3 {
		t.Errorf("kept are %+v, want all three", got)
	}
}
