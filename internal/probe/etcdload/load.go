package etcdload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe/ledger"
)

// Writers and Readers are how many clients there are of each kind.
const (
	Writers = 16
	Readers = 4
)

// Options of a load.
type Options struct {
	// Endpoints are the members to begin with, as host:port. The host is the name that a
	// member's certificate must have.
	Endpoints []string
	// Dial opens a connection to an endpoint.
	Dial func(ctx context.Context, endpoint string) (net.Conn, error)
	// TLS is what a client presents and trusts.
	TLS *tls.Config
	// Prefix is that of all keys, which no other client may have.
	Prefix string
	// Interval is the time between two operations of a client, and between two fresh
	// connections to a member.
	Interval, FreshInterval time.Duration
	Clock                   clock.WithTicker
	// Attempt limits one attempt of an operation, Deadline a logical write, and Pause is the
	// time between two attempts.
	Attempt, Deadline, Pause time.Duration
}

// Defaults are the options that probes and scenarios begin with.
func Defaults(clock clock.WithTicker) Options {
	return Options{
		Clock: clock, Interval: 100 * time.Millisecond, FreshInterval: time.Second,
		Attempt: 2 * time.Second, Deadline: 10 * time.Second, Pause: 50 * time.Millisecond,
	}
}

// Load is clients at work.
type Load struct {
	options     Options
	history     *History
	account     account
	connections *connections
	clients     []*clientv3.Client

	stop    chan struct{}
	working sync.WaitGroup

	mu        sync.Mutex
	endpoints []string
	keys      [Writers]string
}

// Who opens connections: writers and readers, or the load for one answer each second.
const (
	Working = "clients"
	Fresh   = "fresh"
)

// Start starts the clients. They work until Finish, and no longer than ctx.
func Start(ctx context.Context, options Options) (*Load, error) {
	load := newLoad(options)
	for range Writers + Readers {
		client, err := load.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, load.disconnect())
		}
		load.clients = append(load.clients, client)
	}
	load.begin(ctx, func(client int) Store { return store{load.clients[client]} })
	load.working.Go(func() { load.repeatEvery(ctx, options.FreshInterval, load.refresh) })
	return load, nil
}

func newLoad(options Options) *Load {
	now := options.Clock.Now()
	return &Load{
		options: options, endpoints: options.Endpoints, history: NewHistory(), connections: newConnections(),
		account: account{last: now, Account: Account{Acks: ledger.NewRate(now)}}, stop: make(chan struct{}),
	}
}

// begin starts writers and readers, each with its store.
func (l *Load) begin(ctx context.Context, stores func(client int) Store) {
	for id := range Writers {
		l.turn(id, 0)
	}
	for id := range Writers + Readers {
		if id < Writers {
			l.working.Go(func() { l.repeat(ctx, (&writer{load: l, store: stores(id), id: id}).write) })
		} else {
			l.working.Go(func() { l.repeat(ctx, (&reader{load: l, store: stores(id), id: id, next: id}).read) })
		}
	}
}

// A member that is down is tried again about each second.
const (
	retryMember   = 100 * time.Millisecond
	retryAtLatest = time.Second
)

// connect returns a client of all members.
func (l *Load) connect(ctx context.Context) (*clientv3.Client, error) {
	note := func(endpoint string, err error) { l.connections.note(l.options.Clock.Now(), Working, endpoint, err) }
	dial := func(ctx context.Context, endpoint string) (net.Conn, error) {
		conn, err := l.options.Dial(ctx, endpoint)
		if err != nil {
			note(endpoint, err)
		}
		return conn, err
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: urls(l.options.Endpoints), TLS: l.options.TLS, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(dial),
			grpc.WithTransportCredentials(counted{credentials.NewTLS(l.options.TLS), note}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: retryMember, Multiplier: 2, Jitter: 0.2, MaxDelay: retryAtLatest},
				MinConnectTimeout: l.options.Attempt,
			}),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd at %v: %w", l.options.Endpoints, err)
	}
	return client, nil
}

func urls(endpoints []string) []string {
	urls := make([]string, 0, len(endpoints))
	for _, endpoint := range endpoints {
		urls = append(urls, "https://"+endpoint)
	}
	return urls
}

// SetEndpoints changes the members to which clients connect. None changes nothing.
func (l *Load) SetEndpoints(endpoints []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(endpoints) == 0 || slices.Equal(endpoints, l.endpoints) {
		return
	}
	l.endpoints = slices.Clone(endpoints)
	for _, client := range l.clients {
		client.SetEndpoints(urls(endpoints)...)
	}
}

// SetPhase names what happens from now on in the counts of connections.
func (l *Load) SetPhase(name string) { l.connections.setPhase(l.options.Clock.Now(), name) }

// key is the one that a writer writes at present.
func (l *Load) key(writer int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys[writer]
}

// turn begins a chapter of a writer.
func (l *Load) turn(writer, chapter int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[writer] = fmt.Sprintf("%s/%d/%d", l.options.Prefix, writer, chapter)
}

// refresh opens a connection to every member, all at the same time.
func (l *Load) refresh(ctx context.Context) {
	l.mu.Lock()
	endpoints := l.endpoints
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, endpoint := range endpoints {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, l.options.Attempt)
			defer cancel()
			shown, err := connect(ctx, l.options, endpoint)
			l.connections.opened(l.options.Clock.Now(), endpoint, shown, err)
		})
	}
	all.Wait()
}

// look reads a key once and records what it has.
func (l *Load) look(ctx context.Context, from Store, client int, key string) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.Attempt)
	defer cancel()
	begun := l.history.Now()
	found, err := from.Get(ctx, key)
	if err != nil {
		return err
	}
	l.history.Read(client, key, found.Value, begun)
	l.account.read()
	return nil
}

func (l *Load) repeat(ctx context.Context, do func(context.Context)) {
	l.repeatEvery(ctx, l.options.Interval, do)
}

// repeatEvery does something until the load is to stop.
func (l *Load) repeatEvery(ctx context.Context, interval time.Duration, do func(context.Context)) {
	ticker := l.options.Clock.NewTicker(interval)
	defer ticker.Stop()
	for !l.stopped() {
		do(ctx)
		select {
		case <-l.stop:
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (l *Load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// pause waits between two attempts.
func (l *Load) pause(ctx context.Context) {
	timer := l.options.Clock.NewTimer(l.options.Pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

func (l *Load) disconnect() error {
	problems := make([]error, 0, len(l.clients))
	for _, client := range l.clients {
		problems = append(problems, client.Close())
	}
	return errors.Join(problems...)
}
