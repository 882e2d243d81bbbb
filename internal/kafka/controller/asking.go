package controller

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Whoever keeps a pass waiting costs the time that it waits, whatever he says in the end: a
// late answer costs as much as none. So it is the waiting that is bounded, and not how often
// an answer fails to come: a pass waits for as long as prompt answers take, and longer only
// in one of the places that there are for that (places.go). What follows, however many
// clusters are not prompt:
//
//   - Without a place, a pass takes promptly of a worker's time for asking, and as much for
//     each thing that it has somebody do. At least half of the workers, unless there is only
//     one, wait for nobody longer than that.
//   - A cluster that is prompt needs no place.
//   - One that is slow now and then, on a busy machine for example, does not depend on
//     places either: those who were slow are asked without one, too, and are heard as soon as
//     they are prompt when they are asked. Between two questions lies as long as they have
//     been slow, and longestPause at most.
//   - One that is never prompt is heard whenever it has a place. Nobody waits for a place in
//     vain, but longer the more there are who want one. As long as nobody else does, it is
//     heard in every pass.

const (
	// askingTime is what a pass spends on all its questions together.
	askingTime = 6 * time.Second
	// promptly is how long a pass waits for answers without a place: about as long as it
	// takes for its calls to the API server. Who answers by then is prompt, others are slow.
	promptly = 50 * time.Millisecond
	// refusalTime is when a refusal comes so late that it counts as silence, which is not
	// asked again at once.
	refusalTime = 500 * time.Millisecond
	// questionsAtOnce is how many questions are under way in one cluster, and
	// questionsInAll how many in all of them: each holds a connection.
	questionsAtOnce = 64
	questionsInAll  = 8 * questionsAtOnce
	// Between two questions to somebody who is silent lies as long as the silence has
	// lasted, within these bounds.
	shortestPause = time.Second
	longestPause  = 30 * time.Second
)

// reach is who is asked.
type reach int

const (
	// worthwhile leaves out those who were silent a moment ago. Silence is no evidence
	// and shuts gates, so that believing in it for a while risks nothing.
	worthwhile reach = iota
	// everybody is asked before something is done that silence might speak for.
	everybody
	// acting is everybody, too, for what is done by whoever is asked, and may be asked of
	// him again: without a place only of those who are prompt.
	acting
)

// fate is what became of a question.
type fate int

const (
	// unasked: there was no time to ask, or not enough to wait for the answer.
	unasked fate = iota
	// presumed: whoever was to be asked was silent when there was time enough to answer,
	// and counts as silent.
	presumed
	// silent: whoever was asked has let the time for an answer pass, or has said after
	// some time that there is none: who is waited for in vain costs the same.
	silent
	// answered: an answer came, or a refusal at once.
	answered
)

// fates are what became of questions that were put together.
type fates []fate

// spared reports whether somebody has not been asked, or not been given the time to answer.
func (f fates) spared() bool { return slices.Contains(f, unasked) || slices.Contains(f, presumed) }

// timedOut reports whether an answer was, or may have been, waited for in vain.
func (f fates) timedOut() bool {
	return slices.ContainsFunc(f, func(became fate) bool { return became != answered })
}

// question is what a process of a cluster is asked.
type question struct {
	// of tells the processes of a cluster from each other.
	of string
	// life changes with what makes it worthwhile to ask a silent process again at once.
	life string
	// ask asks, and fails unless there is an answer.
	ask func(context.Context) error
}

// standing is how a process has answered so far.
type standing struct {
	life string
	// failure is why nothing came, nil after an answer or a refusal.
	failure error
	// slowSince is when it was first slow, and silentSince when it was first asked in vain,
	// since it was prompt and since it answered. Both are zero if it did last time.
	slowSince, silentSince time.Time
	// tried is when it was asked last, and asked when that was for as long as an answer may
	// take.
	tried, asked time.Time
	// heardOut is true when it has been given as much time as an answer may take since it
	// fell silent. Until then it may only be slow.
	heardOut bool
}

// slow reports whether prompt answers come sooner than its did.
func (s standing) slow() bool { return !s.slowSince.IsZero() }

// next is when it is asked again after it was asked then: at once, unless it was silent. A
// clock that has been set back makes it due at once.
func (s standing) next(asked, now time.Time) time.Time {
	if s.failure == nil || asked.After(now) {
		return now
	}
	return asked.Add(min(max(asked.Sub(s.silentSince), shortestPause), longestPause))
}

// answered is how it stands after an answer that took so long.
func (s standing) answered(took time.Duration, now time.Time) standing {
	if took < promptly {
		return standing{asked: now}
	}
	return standing{slowSince: earlier(s.slowSince, now), asked: now}
}

// fell is how it stands when it was asked and no answer came in the time that there was.
func (s standing) fell(failure error, now time.Time) standing {
	s.slowSince = earlier(s.slowSince, now)
	if s.failure == nil {
		s.silentSince, s.failure = now, failure
	}
	return s
}

// silent is how it stands when no answer came in the time that one may take.
func (s standing) silent(failure error, now time.Time) standing {
	s = s.fell(failure, now)
	s.failure, s.asked, s.heardOut = failure, now, true
	return s
}

// earlier is since when something is so that is so now.
func earlier(since, now time.Time) time.Time {
	if since.IsZero() {
		return now
	}
	return since
}

// asker asks the processes of all clusters. It remembers who is slow; a process that is not
// remembered has never been asked.
type asker struct {
	clock     clock.PassiveClock
	mu        sync.Mutex
	standings map[types.UID]map[string]standing
	places    *places
	// questions has room for one that is under way.
	questions chan struct{}
}

// newAsker makes one for as many passes at the same time. Half of them may wait for those
// who are slow.
func newAsker(now clock.PassiveClock, passes int) *asker {
	return &asker{
		clock:     now,
		standings: map[types.UID]map[string]standing{},
		questions: make(chan struct{}, questionsInAll),
		places:    newPlaces(max(1, passes/2)),
	}
}

// turns are the questions by whom they are put to.
type turns struct {
	// prompt were so last time, or have never been asked since their lives changed.
	prompt []int
	// slow are waited for, the longest not asked first. If nobody can be, those are asked in
	// their stead who are due for it, and heard if they are prompt by now.
	slow, hasty []int
}

func (a *asker) turns(kafka types.UID, of reach, questions []question) turns {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, now, standings := turns{}, a.clock.Now(), a.standings[kafka]
	for i, q := range questions {
		s, known := standings[q.of]
		switch {
		case !known || !s.slow() || s.life != q.life:
			t.prompt = append(t.prompt, i)
			continue
		case of != worthwhile || !now.Before(s.next(s.asked, now)):
			t.slow = append(t.slow, i)
		}
		if !now.Before(s.next(s.tried, now)) {
			t.hasty = append(t.hasty, i)
		}
	}
	slices.SortStableFunc(t.slow, func(i, j int) int {
		return standings[questions[i].of].asked.Compare(standings[questions[j].of].asked)
	})
	return t
}

// presumption is what is believed of a process that is not asked, or not waited for.
func (a *asker) presumption(kafka types.UID, q question) fate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.standings[kafka][q.of]; s.heardOut && s.life == q.life {
		return presumed
	}
	return unasked
}

// enter takes room in a channel, unless the context ends before there is any.
func enter(ctx context.Context, room chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func leave(room chan struct{}) { <-room }

// ask puts one question, and remembers how long the answer was waited for.
func (a *asker) ask(ctx context.Context, kafka types.UID, q question) fate {
	if !enter(ctx, a.questions) {
		return a.presumption(kafka, q)
	}
	defer leave(a.questions)
	began := a.clock.Now()
	failure := q.ask(ctx)
	switch {
	case !a.inVain(failure, began):
		a.note(kafka, q, func(s standing, now time.Time) standing { return s.answered(now.Sub(began), now) })
		return answered
	case ctx.Err() != nil: // it was not given the time that an answer may take
		if a.clock.Since(began) >= promptly {
			a.note(kafka, q, func(s standing, now time.Time) standing { return s.fell(failure, now) })
		}
		return a.presumption(kafka, q)
	default:
		a.note(kafka, q, func(s standing, now time.Time) standing { return s.silent(failure, now) })
		return silent
	}
}

// inVain reports whether an answer to what was asked then was waited for in vain: a refusal
// that comes late has cost as much as silence, and says as little.
func (a *asker) inVain(failure error, began time.Time) bool {
	return failure != nil && (waitedFor(failure) || a.clock.Since(began) >= refusalTime)
}

// waitedFor reports whether a question failed because time has passed. Whoever refuses
// does so at once, and it costs nothing to ask again.
func waitedFor(err error) bool {
	network, is := errors.AsType[net.Error](err)
	return is && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, syscall.EHOSTUNREACH)
}

// note remembers how a process stands after it was asked. Nothing counts of what was before
// its life changed, or the clock was set back.
func (a *asker) note(kafka types.UID, q question, after func(before standing, now time.Time) standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, found := a.standings[kafka]
	if !found {
		of = map[string]standing{}
		a.standings[kafka] = of
	}
	now, before := a.clock.Now(), of[q.of]
	if before.life != q.life || before.tried.After(now) {
		before = standing{}
	}
	s := after(before, now)
	s.life, s.tried = q.life, now
	of[q.of] = s
}

// failure is why a process that counts as silent did not answer last.
func (a *asker) failure(kafka types.UID, of string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.standings[kafka][of].failure
}

// wait is how long until somebody who is silent is asked again, or there may be a place to
// wait for him; zero when nobody is.
func (a *asker) wait(kafka types.UID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, first := a.clock.Now(), time.Time{}
	for _, s := range a.standings[kafka] {
		if due := s.next(s.tried, now); s.failure != nil && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if first.IsZero() {
		return 0
	}
	if t, waits := a.places.waiting[kafka]; waits && t.back.Before(first) {
		first = t.back
	}
	return max(first.Sub(now), shortestPause)
}

// keep drops all processes of the Kafka but those that there are.
func (a *asker) keep(kafka types.UID, exists func(of string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.standings[kafka], func(of string, _ standing) bool { return !exists(of) })
}

// forget drops a Kafka that is gone.
func (a *asker) forget(kafka types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.standings, kafka)
	delete(a.places.waiting, kafka)
}
