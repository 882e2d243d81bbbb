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
	clocktesting "k8s.io/utils/clock/testing"
)

// manyHoles are clusters that have been cut off for long, and as many workers as the
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

// besideHoles lets clusters that are cut off be looked at whenever they are due, and does
// something after that has been so for a while.
func besideHoles(t *testing.T, count int, seed uint64, do func(*manyHoles)) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	ctx, stop := context.WithCancel(t.Context())
	m := &manyHoles{asker: newAsker(clock.RealClock{}, 4), workers: make(chan struct{}, 4), asked: map[types.UID]time.Time{}}
	var all sync.WaitGroup
	for i := range count {
		kafka, wait := types.UID(fmt.Sprint("hole-", i)), time.Duration(random.Int64N(int64(longestPause)))
		questions := putTo("silent", 1, func(ctx context.Context) error {
			m.note(kafka)
			return blackHole(ctx)
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
				wait = m.asker.wait(kafka)
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
	return m.asker.put(ctx, round{kafka: kafka}, questions)
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

func TestAnAgentThatWasSilentOnceIsHeardAgainWithinHalfAMinuteBesideBlackHoles(t *testing.T) {
	t.Parallel()
	for _, holes := range []int{0, 50, 200} {
		for seed := range uint64(5) {
			synctest.Test(t, func(t *testing.T) {
				besideHoles(t, holes, seed, func(m *manyHoles) {
					lively := putTo("a", 1, prompt)
					m.pass(t.Context(), "lively", lively)
					m.pass(t.Context(), "lively", putTo("a", 1, blackHole))
					if took := m.heardAgain(t.Context(), "lively", lively); took > longestPause {
						t.Errorf("beside %d black holes it is heard again after %s", holes, took)
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
		besideHoles(t, holes, 1, func(m *manyHoles) {
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
		"it should be there":        {ticket{since: minute(-1), back: noon().Add(-time.Second)}, false},
		"it comes in a while":       {ticket{since: minute(-1), back: noon().Add(5 * time.Second)}, true},
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

func TestATurnWithoutAPlaceIsStillDue(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(noon())
	a := newAsker(now, 1)
	questions := putTo("a", 1, prompt)
	silentBefore(a, "k", questions)
	a.places.take("another", recent, noon())

	if got := a.put(t.Context(), round{kafka: "k"}, questions)[0]; got != presumed {
		t.Errorf("without a place the question became %d", got)
	}
	a.leavePlace()
	now.SetTime(noon().Add(a.wait("k")))
	if got := a.put(t.Context(), round{kafka: "k"}, questions)[0]; got != answered || a.wait("k") != 0 {
		t.Errorf("as soon as there is a place the question becomes %d", got)
	}
	if got := now.Since(noon()); got != shortestPause {
		t.Errorf("it came again after %s, want %s", got, shortestPause)
	}
}
