package harness

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/probe"
)

// UserClient is a client that connects as a KafkaUser, with what the Secret of that user held when it was made.
type UserClient struct {
	client  *kgo.Client
	options []kgo.Opt
	cancel  context.CancelFunc
	slowed  *slowed
}

// UserClient returns a client for a listener. It connects when it is used.
func (k Kafka) UserClient(ctx context.Context, user, listener string) (*UserClient, error) {
	live, cancel := context.WithCancel(ctx)
	client := &UserClient{cancel: cancel, slowed: &slowed{}}
	var err error
	if client.options, err = k.userOptions(live, user, listener); err == nil {
		client.client, err = kgo.NewClient(append(slices.Clip(client.options), kgo.WithHooks(client.slowed))...)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connecting to Kafka %s as user %s: %w", k.Name, user, err)
	}
	return client, nil
}

func (k Kafka) userOptions(ctx context.Context, user, listener string) ([]kgo.Opt, error) {
	opened, err := k.Target(ctx)
	if err != nil {
		return nil, err
	}
	at, err := opened.Listener(listener)
	if err != nil {
		return nil, err
	}
	authorities, err := opened.ClusterCA()
	if err != nil {
		return nil, err
	}
	own := &corev1.Secret{}
	if err := k.Kube.Get(ctx, k.Key(user), own); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", user, err)
	}
	identity := probe.Identity{Listener: at, Trust: probe.Reread(authorities, probe.All)}
	options := clientOptions(at)
	if at.Auth == probe.AuthTLS {
		certificate, err := tls.X509KeyPair(own.Data["user.crt"], own.Data["user.key"])
		if err != nil {
			return nil, fmt.Errorf("reading the certificate in Secret %s: %w", user, err)
		}
		identity.Credential = func(context.Context) (*tls.Certificate, error) { return &certificate, nil }
	} else {
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: string(own.Data["password"])}.AsSha512Mechanism()))
	}
	return append(options, dialing(identity, opened.Network())), nil
}

func clientOptions(at probe.Listener) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(at.Bootstrap), kgo.DisableClientMetrics(), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RequestRetries(0),
	}
}

func dialing(identity probe.Identity, network probe.Network) kgo.Opt {
	return kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
		return identity.Connect(ctx, network, address)
	})
}

// AttentiveClient returns a client that reads its certificate from two entries of a Secret for each connection.
func (k Kafka) AttentiveClient(ctx context.Context, secret, listener, certEntry, keyEntry string) (*UserClient, error) {
	live, cancel := context.WithCancel(ctx)
	client, err := k.attentiveClient(live, secret, listener, certEntry, keyEntry)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connecting to Kafka %s with %s of Secret %s: %w", k.Name, certEntry, secret, err)
	}
	client.cancel = cancel
	return client, nil
}

func (k Kafka) attentiveClient(ctx context.Context, secret, listener, certEntry, keyEntry string) (*UserClient, error) {
	opened, err := k.Target(ctx)
	if err != nil {
		return nil, err
	}
	at, err := opened.Listener(listener)
	if err != nil {
		return nil, err
	}
	authorities, err := opened.ClusterCA()
	if err != nil {
		return nil, err
	}
	identity := probe.Identity{Listener: at, Trust: probe.Reread(authorities, probe.All)}
	identity.Credential = func(ctx context.Context) (*tls.Certificate, error) {
		own := &corev1.Secret{}
		if err := k.Kube.Get(ctx, k.Key(secret), own); err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", secret, err)
		}
		certificate, err := tls.X509KeyPair(own.Data[certEntry], own.Data[keyEntry])
		if err != nil {
			return nil, fmt.Errorf("reading %s and %s of Secret %s: %w", certEntry, keyEntry, secret, err)
		}
		return &certificate, nil
	}
	options := append(clientOptions(at), dialing(identity, opened.Network()))
	connected, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &UserClient{client: connected, options: options, slowed: &slowed{}}, nil
}

// Connect opens a new connection and completes a request on it.
func (u *UserClient) Connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	fresh, err := kgo.NewClient(u.options...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer fresh.Close()
	return fresh.Ping(ctx)
}

// Send produces a record to a topic and waits until Kafka has it.
func (u *UserClient) Send(ctx context.Context, topic string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return u.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr()
}

// Receive reads one record of a topic from its beginning.
func (u *UserClient) Receive(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	consumer, err := kgo.NewClient(append(slices.Clip(u.options), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return fmt.Errorf("making a consumer of topic %s: %w", topic, err)
	}
	defer consumer.Close()
	for {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil || fetches.NumRecords() > 0 {
			return err
		}
	}
}

// CreateTopic asks for a new topic, which needs a right of its own.
func (u *UserClient) CreateTopic(ctx context.Context, name string) (code int16, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, u.client)
	if err != nil {
		return 0, fmt.Errorf("creating topic %s: %w", name, err)
	}
	if len(resp.Topics) != 1 {
		return 0, errNoTopic
	}
	return resp.Topics[0].ErrorCode, nil
}

var errNoTopic = errors.New("the answer is about no topic")

// Throttled is for how long brokers have slowed the client down so far.
func (u *UserClient) Throttled() time.Duration { return u.slowed.total() }

// Close ends all connections.
func (u *UserClient) Close() {
	u.client.Close()
	u.cancel()
}

// slowed adds up for how long brokers say that they slow a client down.
type slowed struct {
	mu  sync.Mutex
	sum time.Duration
}

var _ kgo.HookBrokerThrottle = (*slowed)(nil)

// OnBrokerThrottle implements kgo.HookBrokerThrottle.
func (s *slowed) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum += interval
}

func (s *slowed) total() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}
