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

// Whoever is cut off costs what it is waited for. What one pass may spend on that is
// bounded, and so is what all passes together may spend on those who were silent before:
// clusters of which nobody answers leave room for the others.

const (
	// askingTime is what a pass spends on all its questions together.
	askingTime = 6 * time.Second
	// firstPatience is how long somebody is waited for who has never been asked: most
	// answer at once, and whoever does not takes his turn with those who are silent.
	firstPatience = 500 * time.Millisecond
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

// round is what all questions have in common that are asked at the same time.
type round struct {
	kafka types.UID
	reach reach
}

// standing is how a process has answered so far.
type standing struct {
	life string
	// failure is why nothing came; nil after an answer, or a refusal that came at once.
	failure error
	// silentSince is when it was first asked in vain, and asked when it was last.
	silentSince, asked time.Time
	// heardOut is true when it has been given as much time as an answer may take since it
	// fell silent. Until then it may only be slow.
	heardOut bool
}

// due is when a silent process is asked again. A clock that has been set back makes it
// due at once.
func (s *standing) due(now time.Time) time.Time {
	if s.asked.After(now) {
		return now
	}
	return s.asked.Add(min(max(s.asked.Sub(s.silentSince), shortestPause), longestPause))
}

// asker asks the processes of all clusters. It remembers who is silent; a process that is
// not remembered has never been asked.
type asker struct {
	clock     clock.PassiveClock
	mu        sync.Mutex
	standings map[types.UID]map[string]standing
	places    *places
	// questions has room for one that is under way.
	questions chan struct{}
}

// newAsker makes one for as many passes at the same time. Half of them may wait for those
// who were silent before.
func newAsker(now clock.PassiveClock, passes int) *asker {
	return &asker{
		clock:     now,
		standings: map[types.UID]map[string]standing{},
		questions: make(chan struct{}, questionsInAll),
		places:    newPlaces(max(1, passes/2)),
	}
}

// put asks all questions side by side until the context ends, and says what became of
// each. Nobody waits for a silent process: whoever has answered so far is asked first, and
// those who were silent only if the pass has a place to wait for them, whoever is asked.
func (a *asker) put(ctx context.Context, r round, questions []question) fates {
	became := make(fates, len(questions))
	t := a.turns(r, questions)
	if len(t.doubted) > 0 {
		if a.takePlace(r.kafka, t) {
			defer a.leavePlace()
		} else {
			t.doubted, t.left = nil, append(t.left, t.doubted...)
		}
	}
	for _, i := range t.left {
		became[i] = a.presumption(r.kafka, questions[i].of)
	}
	share := make(chan struct{}, questionsAtOnce)
	var group sync.WaitGroup
	feed := func(turn []int, patience time.Duration) {
		for _, i := range turn {
			if !enter(ctx, share) {
				return
			}
			group.Go(func() {
				defer leave(share)
				became[i] = a.ask(ctx, r, questions[i], patience)
			})
		}
	}
	feed(t.trusted, askingTime)
	feed(t.strangers, firstPatience)
	feed(t.doubted, askingTime)
	group.Wait()
	return became
}

// turns are the questions by whom they are put to: to those who answered last time or
// have to be asked, to those who have never been asked, to those who were silent and are
// asked again, the longest not asked first, and to those who are not.
type turns struct {
	trusted, strangers, doubted, left []int
	// rank is that of those who were silent and are asked again.
	rank rank
}

func (a *asker) turns(r round, questions []question) turns {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, now, of := turns{rank: cutOff}, a.clock.Now(), a.standings[r.kafka]
	for i := range questions {
		s, known := of[questions[i].of]
		switch {
		case known && s.failure == nil, !known && r.reach == everybody:
			t.trusted = append(t.trusted, i)
		case r.reach == worthwhile && (!known || s.life != questions[i].life):
			t.strangers = append(t.strangers, i)
		case r.reach == everybody || !now.Before(s.due(now)):
			t.doubted = append(t.doubted, i)
			if now.Sub(s.silentSince) < longestPause {
				t.rank = recent
			}
		default:
			t.left = append(t.left, i)
		}
	}
	slices.SortStableFunc(t.doubted, func(i, j int) int {
		return of[questions[i].of].asked.Compare(of[questions[j].of].asked)
	})
	return t.ranked()
}

// ranked says of a cluster of which some answer that it is not cut off.
func (t turns) ranked() turns {
	if t.rank == cutOff && len(t.trusted) > 0 {
		t.rank = partial
	}
	return t
}

func (a *asker) takePlace(kafka types.UID, t turns) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.places.take(kafka, t.rank, a.clock.Now())
}

func (a *asker) leavePlace() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places.leave()
}

// presumption is what is believed of a silent process that is not asked.
func (a *asker) presumption(kafka types.UID, of string) fate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.standings[kafka][of].heardOut {
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

// ask puts one question, and remembers whether the answer had to be waited for in vain.
func (a *asker) ask(ctx context.Context, r round, q question, patience time.Duration) fate {
	if !enter(ctx, a.questions) {
		return unasked
	}
	defer leave(a.questions)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := a.clock.Now()
	failure := q.ask(ctx)
	if !a.inVain(failure, began) {
		a.note(r, q, nil)
		return answered
	}
	a.note(r, q, failure)
	if ctx.Err() != nil {
		return unasked // it was not given the time that an answer may take
	}
	a.hearOut(r, q)
	return silent
}

// inVain reports whether an answer to what was asked then was waited for in vain: a refusal
// that comes late has cost as much as silence.
func (a *asker) inVain(failure error, began time.Time) bool {
	return failure != nil && (waitedFor(failure) || a.clock.Since(began) >= firstPatience)
}

// waitedFor reports whether a question failed because time has passed. Whoever refuses
// does so at once, and it costs nothing to ask again.
func waitedFor(err error) bool {
	network, is := errors.AsType[net.Error](err)
	return is && network.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, syscall.EHOSTUNREACH)
}

func (a *asker) note(r round, q question, failure error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, found := a.standings[r.kafka]
	if !found {
		of = map[string]standing{}
		a.standings[r.kafka] = of
	}
	now := a.clock.Now()
	s := standing{life: q.life, failure: failure, silentSince: now, asked: now}
	if before := of[q.of]; failure != nil && before.failure != nil && before.life == q.life && !before.silentSince.After(now) {
		s.silentSince, s.heardOut = before.silentSince, before.heardOut
	}
	of[q.of] = s
}

// hearOut remembers that a process was silent for as long as an answer may take.
func (a *asker) hearOut(r round, q question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, known := a.standings[r.kafka][q.of]; known {
		s.heardOut = true
		a.standings[r.kafka][q.of] = s
	}
}

// failure is why a process that counts as silent did not answer last.
func (a *asker) failure(kafka types.UID, of string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.standings[kafka][of].failure
}

// wait is how long until somebody who is silent is asked again, as far as there are places
// to wait for him; zero when nobody is.
func (a *asker) wait(kafka types.UID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, first := a.clock.Now(), time.Time{}
	for _, s := range a.standings[kafka] {
		if due := s.due(now); s.failure != nil && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if first.IsZero() {
		return 0
	}
	if t := a.places.waiting[kafka]; t.back.After(now) {
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
