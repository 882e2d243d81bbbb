package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/observe"
)

const (
	// warmUpLimit bounds the time until every client has produced to every
	// partition.
	warmUpLimit = time.Minute
	// drainLimit bounds the reading to the end.
	drainLimit = 30 * time.Second
	drainPause = 100 * time.Millisecond
	// endConfirmations is how often an end with records missing is looked at.
	endConfirmations = 20
)

// Probe is a running probe.
type Probe struct {
	options  Options
	started  time.Time
	runners  []*runner
	prepared *preparation
	observer *observe.Observer

	stopSending  context.CancelFunc
	stopWatching context.CancelFunc
	sending      sync.WaitGroup
	watching     sync.WaitGroup
	spawn        func(*watcher)

	mu      sync.Mutex
	stopped bool
	marks   []Mark
	watches []watchEntry
}

type watchEntry struct {
	watch      Watch
	handshakes *handshakes
}

// Start creates the topics, waits until every client can produce, and begins to
// count. The probe ends with ctx, or properly with Stop.
func Start(ctx context.Context, options Options) (*Probe, error) {
	options, err := options.resolve()
	if err != nil {
		return nil, err
	}
	warm, cancel := context.WithTimeout(ctx, warmUpLimit)
	defer cancel()
	prepared, err := prepare(warm, options)
	if err != nil {
		return nil, err
	}
	runners, err := warmedUp(warm, options, prepared.courses)
	if err != nil {
		return nil, errors.Join(err, prepared.close(context.WithoutCancel(ctx), options))
	}
	p := &Probe{
		options: options, started: options.Clock.Now(), runners: runners, prepared: prepared,
		observer: observe.New(options.Network.Nodes, options.Clock, options.Evidence),
	}
	p.run(ctx)
	return p, nil
}

// warmedUp makes the clients, all of them able to produce; or none.
func warmedUp(ctx context.Context, options Options, courses []course) ([]*runner, error) {
	runners := make([]*runner, 0, len(options.Clients))
	closeAll := func() {
		for _, r := range runners {
			r.close()
		}
	}
	for i, client := range options.Clients {
		r, err := newRunner(client, options, courses[i])
		if err != nil {
			closeAll()
			return nil, err
		}
		runners = append(runners, r)
	}
	group, warm := errgroup.WithContext(ctx)
	for _, r := range runners {
		group.Go(func() error { return r.warmUp(warm) })
	}
	if err := group.Wait(); err != nil {
		closeAll()
		return nil, err
	}
	return runners, nil
}

func (r *runner) close() {
	r.producer.Close()
	r.consumer.Close()
}

func (p *Probe) run(ctx context.Context) {
	send, stopSending := context.WithCancel(ctx)
	watch, stopWatching := context.WithCancel(ctx)
	p.stopSending, p.stopWatching = stopSending, stopWatching
	p.spawn = func(w *watcher) { p.watching.Go(func() { w.run(watch) }) }
	for i, r := range p.runners {
		r.ledger = ledger.New(p.started)
		p.sending.Go(func() { r.send(send, offset(i, p.options.Interval), p.options.Interval) })
		p.watching.Go(func() { r.receive(watch) })
		p.startWatch(i, Watch{Identity: r.spec.Identity, By: r.spec.By}, r.handshakes)
	}
	p.watching.Go(func() { p.observer.Run(watch) })
}

// startWatch starts the nth of all that open new connections again and again.
func (p *Probe) startWatch(n int, watch Watch, record *handshakes) {
	attempt := watch.By
	if attempt == nil {
		attempt = watch.attempts(p.options.Network)
	}
	p.spawn(&watcher{
		listener: watch.Listener, attempt: attempt, network: p.options.Network, clock: p.options.Clock,
		interval: p.options.HandshakeInterval, offset: offset(n, p.options.HandshakeInterval),
		handshakes: record, busy: map[string]bool{},
	})
}

// Watch adds a watch to the running probe.
func (p *Probe) Watch(watch Watch) error {
	if watch.Listener.TLS && watch.Trust == nil && watch.By == nil {
		return fmt.Errorf("watch %s: listener %s speaks TLS, and nothing says what to trust", watch.Name, watch.Listener.Name)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return fmt.Errorf("watch %s: the probe has ended", watch.Name)
	}
	entry := watchEntry{watch: watch, handshakes: newHandshakes()}
	entry.handshakes.setPhase(p.phase())
	p.startWatch(len(p.runners)+len(p.watches), watch, entry.handshakes)
	p.watches = append(p.watches, entry)
	return nil
}

// SetPhase names the time from now on in all accounts.
func (p *Probe) SetPhase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = append(p.marks, Mark{At: p.options.Clock.Now(), Phase: name})
	for _, r := range p.runners {
		r.ledger.SetPhase(name)
		r.handshakes.setPhase(name)
	}
	for _, entry := range p.watches {
		entry.handshakes.setPhase(name)
	}
}

// phase is the current one; p.mu is held.
func (p *Probe) phase() string {
	if len(p.marks) == 0 {
		return ""
	}
	return p.marks[len(p.marks)-1].Phase
}

// Bootstrap gives the clients other addresses to start from. Connections that are open
// live on.
func (p *Probe) Bootstrap(addresses ...string) error {
	for _, r := range p.runners {
		if err := errors.Join(r.producer.UpdateSeedBrokers(addresses...), r.consumer.UpdateSeedBrokers(addresses...)); err != nil {
			return fmt.Errorf("changing the bootstrap addresses: %w", err)
		}
	}
	return nil
}

// Snapshot is the account so far; the time lines of acknowledgements come with
// the Result only.
func (p *Probe) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	snapshot := Snapshot{
		StartedAt: p.started,
		At:        p.options.Clock.Now(),
		Phase:     p.phase(),
		Phases:    append([]Mark(nil), p.marks...),
		Nodes:     p.observer.Logs(),
	}
	for _, r := range p.runners {
		state := ClientState{Kind: r.spec.Kind, Listener: r.spec.Listener.Name, Records: r.ledger.Account()}
		state.Handshakes, state.TLSFailures, state.Failures = r.handshakes.record()
		state.Overtaken = r.ledger.Overtaken(r.course.partitionOf)
		snapshot.Clients = append(snapshot.Clients, state)
	}
	for _, entry := range p.watches {
		state := WatchState{Name: entry.watch.Name, Listener: entry.watch.Listener.Name}
		state.Nodes, _, _ = entry.handshakes.record()
		snapshot.Watches = append(snapshot.Watches, state)
	}
	return snapshot
}

// Stop ends sending, waits for what is under way, reads every topic to its end,
// takes away what the probe made, and gives the account. It may be called once.
func (p *Probe) Stop(ctx context.Context) Result {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()

	p.stopSending()
	p.sending.Wait()
	notes := p.flush(ctx)
	unread := p.drain(ctx)
	p.stopWatching()
	p.watching.Wait()

	result := Result{Snapshot: p.Snapshot(), Complete: len(unread) == 0, Notes: append(notes, unread...)}
	for i, r := range p.runners {
		result.Clients[i].Records.Acks = r.ledger.Acks()
		r.close()
	}
	if err := p.prepared.close(context.WithoutCancel(ctx), p.options); err != nil {
		result.Notes = append(result.Notes, err.Error())
	}
	return result
}

// flush waits until every record was acknowledged or given up.
func (p *Probe) flush(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, p.options.Deadline+drainPause)
	defer cancel()
	notes := make([]string, len(p.runners))
	var flushing sync.WaitGroup
	for i, r := range p.runners {
		flushing.Go(func() {
			if err := r.producer.Flush(ctx); err != nil {
				notes[i] = fmt.Sprintf("client %s: records were still under way at the end: %v", r.spec.Kind, err)
			}
			r.ledger.EndOfSending(r.clock.Now())
			r.producer.Close()
		})
	}
	flushing.Wait()
	return nonEmpty(notes)
}

// drain reads every topic to its end.
func (p *Probe) drain(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	notes := make([]string, len(p.runners))
	var draining sync.WaitGroup
	for i, r := range p.runners {
		draining.Go(func() {
			if err := r.drain(ctx); err != nil {
				notes[i] = fmt.Sprintf("client %s did not read its topic to the end: %v", r.spec.Kind, err)
			}
		})
	}
	draining.Wait()
	return nonEmpty(notes)
}

// drain returns when the consumer has read to an end of the topic that was asked for after the last record was sent:
// other clients may still write to a shared one. Where acknowledged records are missing there, the end is asked for again
// and again: a new leader learns late how far its log counts.
func (r *runner) drain(ctx context.Context) error {
	ticker := r.clock.NewTicker(drainPause)
	defer ticker.Stop()
	var ends map[int32]int64
	for confirmed := 0; ; {
		var err error
		if ends == nil {
			if ends, err = r.ends(ctx); !r.hasRead(ends) && !r.course.shared {
				confirmed = 0
			}
		}
		if r.hasRead(ends) {
			if r.ledger.Pending() == 0 || confirmed >= endConfirmations {
				return nil
			}
			confirmed, ends = confirmed+1, nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err, r.troubles())
		case <-ticker.C():
		}
	}
}

func nonEmpty(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			kept = append(kept, text)
		}
	}
	return kept
}
