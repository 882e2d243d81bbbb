package application

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

const (
	// beat is how often the directory is looked at, and how often what does not work
	// yet is tried again.
	beat = time.Second
	// timeBase writes a time in few characters.
	timeBase = 36
)

// Options of the client.
type Options struct {
	// Directory is where the Secret of the KafkaAccess is mounted.
	Directory string
	// Topic to send to and read from.
	Topic probe.Topic
	// Interval between two records.
	Interval time.Duration
	// ReportEvery is the time between two accounts.
	ReportEvery time.Duration
	// Listen is the address that serves the account.
	Listen string
	// Name tells clients of one topic apart.
	Name string
	// Out receives the accounts, Log what the client waits for.
	Out, Log io.Writer
	Clock    clock.WithTicker
}

// ErrNotStarted is a client that was stopped before its first record.
var ErrNotStarted = errors.New("the client was stopped before it sent a record")

// client is a running client.
type client struct {
	options Options
	files   *files
	started time.Time

	mu      sync.Mutex
	waiting string
	// told is the last reason to wait that the log has.
	told    string
	before  beginning
	running *probe.Probe
	result  *probe.Result
}

func newClient(options Options) *client {
	return &client{
		options: options, started: options.Clock.Now(),
		files: &files{directory: options.Directory, clock: options.Clock},
	}
}

// Run sends and reads back records until ctx ends, and returns the account of that. It
// waits for files that are missing, because the Secret may not have been written yet.
func Run(ctx context.Context, options Options) (Account, error) { return newClient(options).run(ctx) }

func (c *client) run(ctx context.Context) (Account, error) {
	if _, err := c.files.now(); errors.Is(err, ErrNoDirectory) {
		return Account{}, err
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", c.options.Listen)
	if err != nil {
		return Account{}, fmt.Errorf("serving the account: %w", err)
	}
	// The account is served and printed until the client has read its topic to the end.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, alive := errgroup.WithContext(alive)
	group.Go(func() error { return c.serve(alive, listener) })
	group.Go(func() error { return c.report(alive) })
	group.Go(func() error {
		defer end()
		return c.work(ctx, alive)
	})
	err = group.Wait()
	account := c.account()
	account.Final = true
	return account, errors.Join(err, write(c.options.Out, account))
}

// report prints the account until ctx ends.
func (c *client) report(ctx context.Context) error {
	ticker := c.options.Clock.NewTicker(c.options.ReportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := write(c.options.Out, c.account()); err != nil {
				return err
			}
		}
	}
}

// work ends early when alive does: the account can no longer be reported then.
func (c *client) work(ctx, alive context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	running, err := c.start(ctx)
	if err != nil {
		return err
	}
	c.follow(ctx, running)
	result := running.Stop(context.WithoutCancel(ctx))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = &result
	return nil
}

// start tries until a probe runs.
func (c *client) start(ctx context.Context) (*probe.Probe, error) {
	ticker := c.options.Clock.NewTicker(beat)
	defer ticker.Stop()
	for {
		running, err := c.try(ctx)
		if err == nil {
			c.began(running)
			return running, nil
		}
		if ctx.Err() == nil {
			c.wait(err.Error())
		}
		select {
		case <-ctx.Done():
			account := c.account()
			return nil, fmt.Errorf("%w: %s", ErrNotStarted, account.reason())
		case <-ticker.C():
		}
	}
}

// began keeps the probe for the account.
func (c *client) began(running *probe.Probe) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.waiting = running, ""
}

// wait keeps what the client waits for, and tells of it once.
func (c *client) wait(reason string) {
	c.mu.Lock()
	known := c.told == reason
	c.waiting, c.told = reason, reason
	c.mu.Unlock()
	if !known {
		c.tell("waiting: " + reason)
	}
}

// tell writes a sentence to the log. Without a log the client works on.
func (c *client) tell(sentence string) {
	_, _ = fmt.Fprintln(c.options.Log, sentence)
}

// try reads the files, opens one connection with them, and starts the probe.
func (c *client) try(ctx context.Context) (*probe.Probe, error) {
	start, err := c.files.now()
	if err != nil {
		return nil, err
	}
	identity := c.files.identity(start)
	if err := c.connect(ctx, identity); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.waiting = "the first record was not acknowledged yet"
	c.mu.Unlock()
	// The probe outlives ctx: it reads its topic to the end after that.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	called := context.AfterFunc(ctx, cancel)
	running, err := probe.Start(live, probe.Options{
		Network: c.files, Topic: c.options.Topic, Interval: c.options.Interval, Clock: c.options.Clock,
		Clients: []probe.Client{{Identity: identity, Kind: c.kind(), By: c.files.check(identity)}},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	called() // a probe that was called off in this moment ends by itself
	return running, nil
}

// kind tells the records of this run from those of others.
func (c *client) kind() string {
	return c.options.Name + "-" + strconv.FormatInt(c.started.UnixMilli(), timeBase)
}

// connect opens fresh connections until one is accepted, one to each address.
func (c *client) connect(ctx context.Context, identity probe.Identity) error {
	check := c.files.check(identity)
	var problems []error
	for _, node := range c.files.Nodes() {
		_, err := check(ctx, node)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.mu.Lock()
		c.before.add(err)
		c.mu.Unlock()
		if err == nil {
			return nil
		}
		problems = append(problems, explain(node, err))
	}
	return errors.Join(problems...)
}

// explain says in one sentence why a connection was not accepted.
func explain(node reach.Node, err error) error {
	kind, reason := verdict.Of(err)
	switch {
	case kind == verdict.Unreachable:
		return fmt.Errorf("%s cannot be reached (%s): check that the Kafka is Ready", node.Host, reason)
	case kind == verdict.Refused && reason.FromServer():
		return fmt.Errorf("%s rejected the client (%s): check that the KafkaUser is Ready and belongs to this Kafka", node.Host, reason)
	case kind == verdict.Refused:
		return fmt.Errorf("the client rejected %s (%s): check that the KafkaAccess is Ready and that its whole Secret is mounted", node.Host, reason)
	default:
		return fmt.Errorf("%s closed the connection in the handshake (%s): it is tried again", node.Host, reason)
	}
}

// follow tells of changes of the directory until ctx ends.
func (c *client) follow(ctx context.Context, running *probe.Probe) {
	c.tell("working: records are sent to topic " + c.options.Topic.Name)
	ticker := c.options.Clock.NewTicker(beat)
	defer ticker.Stop()
	last, err := c.files.now()
	problem := text(err)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		b, err := c.files.now()
		switch {
		case err != nil && text(err) != problem:
			c.tell("new connections fail: " + text(err))
		case err == nil && b.version != last.version:
			last = b
			c.tell("the directory changed: new connections use what it holds now")
			if err := running.Bootstrap(b.addresses...); err != nil {
				c.tell(text(err))
			}
		}
		problem = text(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// account is the account so far.
func (c *client) account() Account {
	c.mu.Lock()
	waiting, before, running, result := c.waiting, c.before.clone(), c.running, c.result
	c.mu.Unlock()
	a := Account{
		At: c.options.Clock.Now().UTC(), StartedAt: c.started.UTC(), Waiting: waiting,
		Topic: c.options.Topic.Name, Fresh: before.fresh,
	}
	for reason, count := range before.refused {
		a.refuse(reason, count)
	}
	a.describe(c.files)
	switch {
	case result != nil:
		a.count(result.Clients[0])
		a.conclude(result)
	case running != nil:
		a.count(running.Snapshot().Clients[0])
	}
	return a
}
