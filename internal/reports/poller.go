package reports

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// An agent is polled again after a quarter of the time for which it has reported the same, or nothing, within these
// bounds: what follows a change is seen soon, and what is at rest costs little.
const (
	shortestPause = time.Second
	longestPause  = 30 * time.Second
	restParts     = 4
)

// pollsAtOnce bounds how many polls are under way. Each holds a connection.
const pollsAtOnce = 512

// Agents is the client of agents. See client.Client for its errors.
type Agents interface {
	TLS(ctx context.Context, node client.Node) (publication.Report, error)
}

// Options are what a Poller works with.
type Options struct {
	Clock clock.Clock
	// Agents returns a client with the credentials.
	Agents func(mtls.Credentials) Agents
	// Changed is called after a report of an agent differs from the previous one, or the agent does not answer for another reason.
	Changed func(ctx context.Context, owner types.NamespacedName)
}

// Target is an agent to be polled.
type Target struct {
	// UID is that of its pod.
	UID types.UID
	// Life is whatever makes another report likely when it changes: the agent is polled at once then.
	Life string
	Node client.Node
}

// Report is what is known of an agent.
type Report struct {
	// TLS is what it has reported; nil while it does not answer.
	TLS *publication.Report
	// Err is why it does not answer. Its text may differ each time.
	Err error
	// Since is when it reported this first, or was silent first, and At when it was polled last.
	Since, At time.Time
}

// isAs reports whether two reports are the same. Of errors the types count: a text may name ports of connections.
func (r Report) isAs(other Report) bool {
	return !r.At.IsZero() && reflect.TypeOf(r.Err) == reflect.TypeOf(other.Err) && reflect.DeepEqual(r.TLS, other.TLS)
}

// Poller polls agents. It is safe for concurrent use.
type Poller struct {
	options Options
	// woken has a value when there is news, or something may be due sooner than Run waits for.
	woken chan struct{}

	mu     sync.Mutex
	owners map[types.NamespacedName]*owner
	// news are the owners of agents that have changed since Changed was called last.
	news map[types.NamespacedName]bool
}

// owner is a cluster with the agents of its pods.
type owner struct {
	credentials mtls.Credentials
	agents      map[types.UID]*agent
}

// agent is one that is polled.
type agent struct {
	Target

	// report is zero before the first poll has ended.
	report Report
	// changed is when the life or the report was another last, and due is when it is polled next.
	changed, due time.Time
	isPolled     bool
}

// New returns a Poller. It polls no agent until Track names it.
func New(options Options) *Poller {
	return &Poller{options: options, woken: make(chan struct{}, 1), owners: map[types.NamespacedName]*owner{}, news: map[types.NamespacedName]bool{}}
}

// Track has these agents of a cluster polled from now on, with the credentials, and no others.
func (p *Poller) Track(name types.NamespacedName, credentials mtls.Credentials, targets []Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := p.owners[name], p.options.Clock.Now()
	tracked := &owner{credentials, map[types.UID]*agent{}}
	for _, target := range targets {
		a := &agent{changed: now, due: now}
		if before != nil && before.agents[target.UID] != nil {
			a = before.agents[target.UID]
		}
		if a.Life != target.Life {
			a.changed, a.due = now, now
		}
		a.Target = target
		tracked.agents[target.UID] = a
	}
	p.owners[name] = tracked
	p.wake()
}

// Forget polls no agent of a cluster any more.
func (p *Poller) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners, name)
}

// Latest are the reports of agents of a cluster that have been polled.
func (p *Poller) Latest(name types.NamespacedName) map[types.UID]Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	latest := map[types.UID]Report{}
	if tracked := p.owners[name]; tracked != nil {
		for uid, a := range tracked.agents {
			if !a.report.At.IsZero() {
				latest[uid] = a.report
			}
		}
	}
	return latest
}

// Run polls until the context ends. An agent that hangs keeps no other waiting.
func (p *Poller) Run(ctx context.Context) error {
	var polls errgroup.Group
	polls.SetLimit(pollsAtOnce)
	for {
		for _, name := range p.takeNews() {
			p.options.Changed(ctx, name)
		}
		p.begin(ctx, &polls)
		timer := p.options.Clock.NewTimer(p.untilDue())
		select {
		case <-ctx.Done():
			timer.Stop()
			return polls.Wait()
		case <-p.woken:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// Poll polls all agents once that are due, and returns whose reports have changed. It is Run for those who wait for each
// poll.
func (p *Poller) Poll(ctx context.Context) []types.NamespacedName {
	var polls errgroup.Group
	polls.SetLimit(pollsAtOnce)
	p.begin(ctx, &polls)
	_ = polls.Wait() // polls have no error
	return p.takeNews()
}

// begin begins the polls that are due. They have no error: that an agent does not answer is known of it then.
func (p *Poller) begin(ctx context.Context, polls *errgroup.Group) {
	for _, next := range p.take() {
		polls.Go(func() error {
			report, err := p.options.Agents(next.credentials).TLS(ctx, next.Node)
			if ctx.Err() == nil {
				p.keep(next, report, err)
			}
			return nil
		})
	}
}

// poll is one that is under way.
type poll struct {
	Target

	owner       types.NamespacedName
	credentials mtls.Credentials
}

// take are the polls that are due.
func (p *Poller) take() []poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []poll
	now := p.options.Clock.Now()
	for name, tracked := range p.owners {
		for _, a := range tracked.agents {
			if !a.isPolled && a.isDue(now) {
				a.isPolled = true
				due = append(due, poll{a.Target, name, tracked.credentials})
			}
		}
	}
	return due
}

// isDue reports whether the agent is to be polled. A clock that has been set back makes it due.
func (a *agent) isDue(now time.Time) bool { return !now.Before(a.due) || a.due.Sub(now) > longestPause }

// takeNews are the owners of agents that have changed since the last call.
func (p *Poller) takeNews() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Collect(maps.Keys(p.news))
	clear(p.news)
	return names
}

// keep stores what a poll has found.
func (p *Poller) keep(ended poll, report publication.Report, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tracked := p.owners[ended.owner]
	if tracked == nil || tracked.agents[ended.UID] == nil { // it is gone meanwhile
		return
	}
	a, now := tracked.agents[ended.UID], p.options.Clock.Now()
	found := Report{Err: err, Since: a.report.Since, At: now}
	if err == nil {
		found.TLS = &report
	}
	if !a.report.isAs(found) {
		found.Since, a.changed = now, now
		p.news[ended.owner] = true
	}
	a.report, a.isPolled = found, false
	if a.Life == ended.Life {
		a.due = now.Add(min(max(now.Sub(a.changed)/restParts, shortestPause), longestPause))
	}
	p.wake()
}

// untilDue is how long it takes until an agent is due that is not being polled.
func (p *Poller) untilDue() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait, now := longestPause, p.options.Clock.Now()
	for tracked := range maps.Values(p.owners) {
		for a := range maps.Values(tracked.agents) {
			if !a.isPolled {
				wait = min(wait, a.due.Sub(now))
			}
		}
	}
	return max(wait, 0)
}

// wake has Run look at what is due.
func (p *Poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default: // it will
	}
}
