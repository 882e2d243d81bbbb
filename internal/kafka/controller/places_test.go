package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// manyHoles are clusters that have not been prompt for long, and as many workers as the
// operator has by default.
type manyHoles struct {
	asker   *asker
	workers chan struct{}
	passes  int
	mu      sync.Mutex
	// asked is when each of the clusters was asked last, and longest the longest that one
	// of them was not.
	asked   map[types.UID]time.Time
	longest time.Duration
}

// besideHoles lets clusters that answer like that be looked at whenever they are due, and
// does something after that has been so for a while.
func besideHoles(t *testing.T, count int, answers func(context.Context) error, seed uint64, do func(*manyHoles)) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, stop := context.WithCancel(t.Context())
	m := &manyHoles{asker: newAsker(clock.RealClock{}, 4), workers: make(chan struct{}, 4), asked: map[types.UID]time.Time{}}
	var all sync.WaitGroup
	for i := range count {
		kafka, wait := types.UID(fmt.Sprint("hole-", i)), time.Duration(random.Int64N(int64(longestPause)))
		questions := putTo("silent", 1, func(ctx context.Context) error {
			defer func() {
				if ctx.Err() == nil {
					m.note(kafka)
				}
			}()
			return answers(ctx)
		})
		silentBefore(m.asker, kafka, questions)
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
				m.pass(ctx, kafka, questions)
				wait = max(lookAgain, m.asker.wait(kafka))
			}
		})
	}
	<-time.After(2 * longestPause)
	do(m)
	stop()
	all.Wait()
}

func (m *manyHoles) note(kafka types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, again := m.asked[kafka]; again {
		m.longest = max(m.longest, time.Since(before))
	}
	m.asked[kafka] = time.Now()
}

// pass puts questions while a worker does nothing else.
func (m *manyHoles) pass(ctx context.Context, kafka types.UID, questions []question) fates {
	m.workers <- struct{}{}
	defer leave(m.workers)
	m.mu.Lock()
	m.passes++
	m.mu.Unlock()
	return m.asker.onePass(ctx, kafka, worthwhile, questions)
}

// heardAgain is how long it takes until the only process of a cluster is heard that answers.
func (m *manyHoles) heardAgain(ctx context.Context, kafka types.UID, questions []question) time.Duration {
	began := time.Now()
	for time.Since(began) < time.Hour {
		<-time.After(max(lookAgain, m.asker.wait(kafka)))
		if got := m.pass(ctx, kafka, questions); got[0] == answered {
			break
		}
	}
	return time.Since(began)
}

func TestAnAgentThatWasSilentOnceIsHeardAgainWithinHalfAMinuteBesideOthersThatAreNotPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		holes   int
		answers func(context.Context) error
		seeds   uint64
	}{{holes: 0, seeds: 1}, {50, blackHole, 3}, {200, blackHole, 2}, {50, answersAfter(tooLate), 3}, {200, answersAfter(tooLate), 2}} {
		for seed := range c.seeds {
			synctest.Test(t, func(t *testing.T) {
				besideHoles(t, c.holes, c.answers, seed, func(m *manyHoles) {
					lively := putTo("a", 1, prompt)
					m.pass(t.Context(), "lively", lively)
					m.pass(t.Context(), "lively", putTo("a", 1, blackHole))
					if took := m.heardAgain(t.Context(), "lively", lively); took > longestPause {
						t.Errorf("beside %d clusters that are not prompt it is heard again after %s", c.holes, took)
					}
				})
			})
		}
	}
}

func TestClustersThatAreCutOffAreAskedInTurn(t *testing.T) {
	t.Parallel()
	const holes = 60
	synctest.Test(t, func(t *testing.T) {
		besideHoles(t, holes, blackHole, 1, func(m *manyHoles) {
			m.passes = 0
			<-time.After(time.Hour)
			m.mu.Lock()
			defer m.mu.Unlock()
			// Two places, three seconds each.
			if fair := holes * agentTimeout / 2; len(m.asked) != holes || m.longest > 2*fair {
				t.Errorf("%d of %d were asked, and one of them not for %s; want all of them, each within twice %s", len(m.asked), holes, m.longest, fair)
			}
			if perSecond := float64(m.passes) / time.Hour.Seconds(); perSecond > 10 {
				t.Errorf("they were looked at %.1f times a second", perSecond)
			}
			t.Logf("not asked for %s at most, %.1f looks a second", m.longest, float64(m.passes)/time.Hour.Seconds())
		})
	})
}

// minute is a time of noon.
func minute(n int) time.Time { return noon().Add(time.Duration(n) * time.Minute) }

func TestEveryOtherPlaceGoesToWhoeverHasWaitedLongest(t *testing.T) {
	t.Parallel()
	for given, want := range map[int]types.UID{0: "young", 1: "old"} {
		p := newPlaces(1)
		p.given = given
		p.waiting["old"] = ticket{rank: cutOff, since: minute(-9), back: noon()}
		p.waiting["young"] = ticket{rank: recent, since: minute(-1), back: noon()}
		for _, kafka := range []types.UID{"newcomer", "young", "old"} {
			if got := p.take(kafka, p.waiting[kafka].rank, noon()); got != (kafka == want) {
				t.Errorf("after %d places %s gets one: %t, want that %s does", given, kafka, got, want)
			}
		}
	}
}

func TestAPlaceIsNotKeptForAClusterThatDoesNotCome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ticket ticket
		want   bool
	}{
		"it comes in a moment":      {ticket{since: minute(-1), back: noon().Add(shortestPause)}, false},
		"it should be there":        {ticket{since: minute(-1), back: noon().Add(-askingTime)}, false},
		"it comes in a while":       {ticket{since: minute(-1), back: noon().Add(shortestPause + 1)}, true},
		"it has not come":           {ticket{since: minute(-1), back: noon().Add(-askingTime - 1)}, true},
		"it came by a future clock": {ticket{since: minute(1), back: noon()}, true},
	} {
		p := newPlaces(1)
		p.waiting["expected"] = c.ticket
		if got := p.take("other", recent, noon()); got != c.want {
			t.Errorf("%s: another one gets the place: %t, want %t", name, got, c.want)
		}
	}
}

func TestAClusterKeepsItsTurnUntilItHasGivenUp(t *testing.T) {
	t.Parallel()
	p := newPlaces(1)
	p.take("holds it", recent, noon())
	p.take("waits", cutOff, noon())
	p.take("waits", cutOff, minute(0).Add(longestPause))
	if got := p.waiting["waits"].since; got != noon() {
		t.Errorf("it has waited since %s, want %s", got, noon())
	}
	p.take("looks", cutOff, minute(2))
	if _, waits := p.waiting["waits"]; waits {
		t.Error("its turn is kept although it has not come for a minute")
	}
}

func TestRanks(t *testing.T) {
	t.Parallel()
	ago := func(slow, silent time.Duration) standing {
		return standing{failure: context.DeadlineExceeded, slowSince: noon().Add(-slow), silentSince: noon().Add(-silent)}
	}
	isPrompt, isLate := standing{asked: noon()}, standing{slowSince: noon().Add(-time.Hour)}
	for name, c := range map[string]struct {
		standings []standing
		want      rank
	}{
		"nobody was asked":                            {nil, recent},
		"all are prompt":                              {[]standing{isPrompt, isPrompt}, recent},
		"one is silent, since just now":               {[]standing{isPrompt, ago(0, 0)}, recent},
		"one is silent for less than half a minute":   {[]standing{ago(time.Hour, time.Hour), ago(longestPause-1, longestPause-1)}, recent},
		"all are for half a minute":                   {[]standing{ago(longestPause, longestPause), ago(time.Hour, time.Hour)}, cutOff},
		"one is, and another one answers":             {[]standing{ago(time.Hour, time.Hour), isPrompt}, partial},
		"one is, and another one answers late":        {[]standing{isLate, ago(time.Hour, time.Hour)}, partial},
		"all answer late":                             {[]standing{isLate}, partial},
		"one that is slow for long answered just now": {[]standing{ago(time.Hour, longestPause-1)}, partial},
	} {
		standings := map[string]standing{}
		for i, s := range c.standings {
			standings[fmt.Sprint(i)] = s
		}
		if got := rankOf(standings, noon()); got != c.want {
			t.Errorf("%s: the rank is %d, want %d", name, got, c.want)
		}
	}
}

func TestAClusterComesAgainWhenItIsAboutItsTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		younger, older []rank
		of             rank
		want           time.Duration
	}{
		"nobody waits":                          {of: cutOff, want: time.Second},
		"one waits":                             {older: make([]rank, 1), of: cutOff, want: 1500 * time.Millisecond},
		"four wait":                             {older: make([]rank, 4), of: cutOff, want: 6 * time.Second},
		"many wait":                             {older: make([]rank, 40), of: cutOff, want: 30 * time.Second},
		"many wait of whom more is to be hoped": {younger: make([]rank, 40), of: cutOff, want: time.Second},
		"many wait of whom less is to be hoped": {older: []rank{partial, cutOff, partial, cutOff}, of: recent, want: time.Second},
		"some of each":                          {older: []rank{recent, partial, cutOff, partial}, of: partial, want: 4500 * time.Millisecond},
	} {
		p := newPlaces(2)
		p.taken = 2
		for since, ranks := range map[int][]rank{-1: c.older, 1: c.younger} {
			for i, of := range ranks {
				p.waiting[types.UID(fmt.Sprint(since, "-", i))] = ticket{rank: of, since: noon().Add(time.Duration(since) * time.Second), back: noon()}
			}
		}
		p.waiting["k"] = ticket{since: noon(), back: minute(2)}
		now := noon().Add(2 * time.Second)
		if got := p.take("k", c.of, now); got || p.waiting["k"].back.Sub(now) != c.want || p.waiting["k"].rank != c.of {
			t.Errorf("%s: it has a place: %t, and else comes again after %s, want %s", name, got, p.waiting["k"].back.Sub(now), c.want)
		}
	}
}

func TestPlacesAreTakenUntilAllAreTakenOrKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taken, kept int
		want        bool
	}{
		"all are free":              {0, 0, true},
		"one is taken":              {1, 0, true},
		"one is kept":               {0, 1, true},
		"one is taken and one kept": {1, 1, false},
		"two are taken":             {2, 0, false},
		"two are kept":              {0, 2, false},
	} {
		p := newPlaces(2)
		p.taken = c.taken
		for i := range c.kept {
			p.waiting[types.UID(fmt.Sprint(i))] = ticket{since: minute(-1), back: noon()}
		}
		if got := p.take("k", recent, noon()); got != c.want {
			t.Errorf("%s: another one is given: %t, want %t", name, got, c.want)
		}
	}
}

func TestTicketsLapse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ticket ticket
		kept   bool
	}{
		"it comes late":             {ticket{since: minute(-9), back: noon().Add(-longestPause)}, true},
		"it has given up":           {ticket{since: minute(-9), back: noon().Add(-longestPause - 1)}, false},
		"it has come just now":      {ticket{since: noon(), back: minute(1)}, true},
		"it came by a future clock": {ticket{since: noon().Add(1), back: minute(1)}, false},
	} {
		p := newPlaces(2)
		p.waiting["waits"] = c.ticket
		p.take("another", recent, noon())
		if _, kept := p.waiting["waits"]; kept != c.kept {
			t.Errorf("%s: its turn is kept: %t, want %t", name, kept, c.kept)
		}
	}
}

func TestATurnWithoutAPlaceIsStillDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, began := newAsker(clock.RealClock{}, 1), time.Now()
		questions := putTo("a", 1, answersAfter(tooLate))
		silentBefore(a, "k", questions)
		a.places.take("another", recent, began)

		if got := a.onePass(t.Context(), "k", worthwhile, questions)[0]; got != presumed {
			t.Errorf("without a place the question became %d", got)
		}
		a.places.leave()
		<-time.After(a.wait("k"))
		if got := time.Since(began); got != promptly+shortestPause {
			t.Errorf("it comes again after %s, want %s", got, promptly+shortestPause)
		}
		if got := a.onePass(t.Context(), "k", worthwhile, questions)[0]; got != answered || a.wait("k") != 0 {
			t.Errorf("as soon as there is a place the question becomes %d", got)
		}
	})
}
