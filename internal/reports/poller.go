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
)

// A target is polled again after a quarter of the time for which it has reported the same, or nothing, within these
// bounds: what follows a change is seen soon, and what is at rest costs little.
const (
	shortestPause = time.Second
	longestPause  = 30 * time.Second
	restParts     = 4
)

// pollsAtOnce bounds how many polls are under way. Each holds a connection.
const pollsAtOnce = 512

// Pace is how often a target is polled while it reports the same. One that is silent is polled Slower.
type Pace int

const (
	// Slower polls a target the less often the longer it reports the same.
	Slower Pace = iota
	// Steadily polls it every second: something is on its way.
	Steadily
	// Once polls it no more after it has answered, until it is another process.
	Once
)

// Target is what is polled, an agent for example.
type Target[A any] struct {
	// UID is that of its pod, or of what it is about.
	UID types.UID
	// Process names what answers: a report of another process does not tell of it.
	Process string
	// Life is whatever makes another report likely when it changes: the target is polled at once then, and its owner is reconciled.
	Life string
	Pace Pace
	// Ask polls it. Of what does not answer in full it may return both what it has said and an error.
	Ask func(ctx context.Context) (*A, error)
}

// Report is what is known of a target.
type Report[A any] struct {
	// Process and Life are those of the target when it was polled last.
	Process, Life string
	// Answer is what it has reported; nil while it does not answer. Before is what the same process had reported before that, if
	// the poller has seen it.
	Answer, Before *A
	// Err is why it does not answer. Its text may differ each time.
	Err error
	// Since is when it reported this first, or was silent first. Began and At are when the last poll began and ended.
	Since, Began, At time.Time
}

// isAs reports whether two reports are the same. Of errors the types count: a text may name ports of connections.
func (r Report[A]) isAs(other Report[A]) bool {
	return !r.At.IsZero() && reflect.TypeOf(r.Err) == reflect.TypeOf(other.Err) && reflect.DeepEqual(r.Answer, other.Answer)
}

// Poller polls targets. It is safe for concurrent use.
type Poller[A any] struct {
	clock clock.PassiveClock
	// woken has a value when there is news, or something may be due sooner than Run waits for.
	woken chan struct{}

	mu     sync.Mutex
	owners map[types.NamespacedName]*owner[A]
	// news are the owners of which something has changed that nothing was told of yet.
	news map[types.NamespacedName]bool
}

// owner is a cluster with what is polled of it.
type owner[A any] struct {
	targets map[types.UID]*target[A]
	// wasKnown is true once each target has been polled.
	wasKnown bool
}

// target is one that is polled.
type target[A any] struct {
	Target[A]

	// report is zero before the first poll has ended.
	report Report[A]
	// changed is when the life or the report was another last, and due is when it is polled next.
	changed, due time.Time
	isPolled     bool
}

// New returns a Poller. It polls nothing until Track names it.
func New[A any](now clock.PassiveClock) *Poller[A] {
	return &Poller[A]{clock: now, woken: make(chan struct{}, 1), owners: map[types.NamespacedName]*owner[A]{}, news: map[types.NamespacedName]bool{}}
}

// Track has these targets of a cluster polled from now on, and no others.
func (p *Poller[A]) Track(name types.NamespacedName, targets []Target[A]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, now := p.owners[name], p.clock.Now()
	tracked := &owner[A]{targets: map[types.UID]*target[A]{}}
	for _, wanted := range targets {
		t := &target[A]{changed: now, due: now}
		if before != nil && before.targets[wanted.UID] != nil {
			t = before.targets[wanted.UID]
		}
		if t.Life != wanted.Life || t.Process != wanted.Process {
			t.changed, t.due = now, now
		}
		t.Target = wanted
		tracked.targets[wanted.UID] = t
	}
	tracked.wasKnown = before != nil && before.wasKnown || tracked.isKnown()
	p.owners[name] = tracked
	p.wake()
}

func (o *owner[A]) isKnown() bool {
	for t := range maps.Values(o.targets) {
		if t.report.At.IsZero() {
			return false
		}
	}
	return true
}

// WasKnown reports whether each target of a cluster has been polled, at least of those of some time.
func (p *Poller[A]) WasKnown(name types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owners[name] != nil && p.owners[name].wasKnown
}

// Forget polls nothing of a cluster any more.
func (p *Poller[A]) Forget(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.owners, name)
}

// Latest are the reports of what has been polled of a cluster.
func (p *Poller[A]) Latest(name types.NamespacedName) map[types.UID]Report[A] {
	p.mu.Lock()
	defer p.mu.Unlock()
	latest := map[types.UID]Report[A]{}
	if tracked := p.owners[name]; tracked != nil {
		for uid, t := range tracked.targets {
			if !t.report.At.IsZero() {
				latest[uid] = t.report
			}
		}
	}
	return latest
}

// Run polls until the context ends, and calls changed after something of a cluster has reported differently, or does not answer for
// another reason. A target that hangs keeps no other waiting.
func (p *Poller[A]) Run(ctx context.Context, changed func(ctx context.Context, owner types.NamespacedName)) error {
	var polls errgroup.Group
	polls.SetLimit(pollsAtOnce)
	for {
		for _, name := range p.takeNews() {
			changed(ctx, name)
		}
		p.begin(ctx, &polls)
		timer := clock.RealClock{}.NewTimer(p.untilDue()) // the other clock may be set
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

// Poll polls all once that are due, and returns whose reports have changed. It is Run for those who wait for each
// poll.
func (p *Poller[A]) Poll(ctx context.Context) []types.NamespacedName {
	var polls errgroup.Group
	polls.SetLimit(pollsAtOnce)
	p.begin(ctx, &polls)
	_ = polls.Wait() // polls have no error
	return p.takeNews()
}

// begin begins the polls that are due. They have no error: that a target does not answer is known of it then.
func (p *Poller[A]) begin(ctx context.Context, polls *errgroup.Group) {
	for _, next := range p.take() {
		polls.Go(func() error {
			began := p.clock.Now()
			answer, err := next.Ask(ctx)
			if ctx.Err() == nil {
				p.keep(next, Report[A]{Process: next.Process, Life: next.Life, Answer: answer, Err: err, Began: began})
			}
			return nil
		})
	}
}

// poll is one that is under way.
type poll[A any] struct {
	Target[A]

	owner types.NamespacedName
}

// take are the polls that are due.
func (p *Poller[A]) take() []poll[A] {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []poll[A]
	now := p.clock.Now()
	for name, tracked := range p.owners {
		for _, t := range tracked.targets {
			if t.isWanted() && t.isDue(now) {
				t.isPolled = true
				due = append(due, poll[A]{t.Target, name})
			}
		}
	}
	return due
}

// isWanted reports whether the target is to be polled at all, now or later.
func (t *target[A]) isWanted() bool {
	isSettled := t.Pace == Once && t.report.Answer != nil && t.report.Err == nil && t.report.Process == t.Process
	return !t.isPolled && !isSettled
}

// isDue reports whether the target is to be polled now. A clock that has been set back makes it due.
func (t *target[A]) isDue(now time.Time) bool {
	return !now.Before(t.due) || t.due.Sub(now) > longestPause
}

// takeNews are the owners of which something has changed since the last call.
func (p *Poller[A]) takeNews() []types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Collect(maps.Keys(p.news))
	clear(p.news)
	return names
}

// keep stores what a poll has found.
func (p *Poller[A]) keep(ended poll[A], found Report[A]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tracked := p.owners[ended.owner]
	if tracked == nil || tracked.targets[ended.UID] == nil { // it is gone meanwhile
		return
	}
	t, now := tracked.targets[ended.UID], p.clock.Now()
	before := t.report
	found.At = now
	isSame := found.follow(before)
	if !isSame {
		t.changed = now
	}
	if !isSame || found.Life != before.Life || found.Process != before.Process {
		p.news[ended.owner] = true
	}
	t.report, t.isPolled = found, false
	tracked.wasKnown = tracked.wasKnown || tracked.isKnown()
	if t.Life == ended.Life && t.Process == ended.Process {
		t.due = now.Add(t.pause(now))
	}
	p.wake()
}

// follow takes over what is still so of the report before, and reports whether it is the same. A beginning that is still to come is that of a clock which has been set back:
// it is now.
func (r *Report[A]) follow(before Report[A]) (isSame bool) {
	r.Since, r.Before = before.Since, before.Before
	isSame = before.isAs(*r)
	if !isSame || r.Since.After(r.At) {
		r.Since = r.At
	}
	switch {
	case r.Process != before.Process:
		r.Before = nil
	case !isSame && before.Answer != nil:
		r.Before = before.Answer
	}
	return isSame
}

// pause is how long after a poll the next one comes.
func (t *target[A]) pause(now time.Time) time.Duration {
	if t.Pace == Steadily && t.report.Err == nil {
		return shortestPause
	}
	return min(max(now.Sub(t.changed)/restParts, shortestPause), longestPause)
}

// untilDue is how long it takes until something is due that is not being polled.
func (p *Poller[A]) untilDue() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait, now := longestPause, p.clock.Now()
	for tracked := range maps.Values(p.owners) {
		for t := range maps.Values(tracked.targets) {
			if t.isWanted() {
				wait = min(wait, t.due.Sub(now))
			}
		}
	}
	return max(wait, 0)
}

// wake has Run look at what is due.
func (p *Poller[A]) wake() {
	select {
	case p.woken <- struct{}{}:
	default: // it will
	}
}

// Len is how many clusters are polled.
func (p *Poller[A]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.owners)
}
