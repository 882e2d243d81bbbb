package reports_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// world has agents by their addresses, and counts how often each is polled.
type world struct {
	poller *reports.Poller[publication.Report]

	mu      sync.Mutex
	answers map[string]func(context.Context) (publication.Report, error)
	polls   map[string]int
	changed map[string]int
}

func newWorld() *world {
	w := &world{answers: map[string]func(context.Context) (publication.Report, error){}, polls: map[string]int{}, changed: map[string]int{}}
	w.poller = reports.New[publication.Report](clock.RealClock{})
	return w
}

// notice counts that something has changed.
func (w *world) notice(_ context.Context, owner types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed[owner.Name]++
}

func (w *world) ask(ctx context.Context, address string) (*publication.Report, error) {
	w.mu.Lock()
	w.polls[address]++
	answer := w.answers[address]
	w.mu.Unlock()
	report, err := answer(ctx)
	if err != nil {
		return nil, err
	}
	return &report, nil
}

func (w *world) let(address string, answer func(context.Context) (publication.Report, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[address] = answer
}

// track has the agents of a cluster polled, and waits until those have answered that do so immediately.
func (w *world) track(owner string, agents ...reports.Target[publication.Report]) {
	w.poller.Track(named(owner), agents)
	synctest.Wait()
}

// polled is how often an agent was polled since the last call.
func (w *world) polled(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	polls := w.polls[address]
	w.polls[address] = 0
	return polls
}

// told is how often something has changed of a cluster since the last call.
func (w *world) told(owner string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.changed[owner]
	w.changed[owner] = 0
	return changed
}

// run runs the poller until the test ends.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.poller.Run(ctx, w.notice) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("running: %v", err)
		}
	})
	synctest.Wait()
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func says(revision int64) func(context.Context) (publication.Report, error) {
	return func(context.Context) (publication.Report, error) { return publication.Report{Revision: revision}, nil }
}

// errs says nothing the same way twice, as connections do.
func errs() func(context.Context) (publication.Report, error) {
	port := 0
	return func(context.Context) (publication.Report, error) {
		port++
		return publication.Report{}, fmt.Errorf("port %d: %w", port, errRefused)
	}
}

func hangs(ctx context.Context) (publication.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	<-ctx.Done()
	return publication.Report{}, ctx.Err()
}

var errRefused = errors.New("connection refused")

func named(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }

func (w *world) at(uid, life string) reports.Target[publication.Report] {
	return reports.Target[publication.Report]{
		UID: types.UID(uid), Life: life, Ask: func(ctx context.Context) (*publication.Report, error) { return w.ask(ctx, uid) },
	}
}

func TestAnAgentAtRestIsPolledSeldomAndSoonAfterAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.run(t)
		w.track("c", w.at("a", "1"))
		if polls, told := w.polled("a"), w.told("c"); polls != 1 || told != 1 {
			t.Fatalf("a new agent is polled %d times immediately and %d changes are reported, want 1 and 1", polls, told)
		}
		pass(4 * time.Second)
		if polls := w.polled("a"); polls != 4 {
			t.Errorf("it is polled %d times in its first 4 seconds, want each second", polls)
		}
		pass(time.Hour)
		w.polled("a")
		pass(5 * time.Minute)
		if polls := w.polled("a"); polls != 10 {
			t.Errorf("it is polled %d times in 5 minutes of rest, want 10", polls)
		}
		w.track("c", w.at("a", "1"))
		if polls := w.polled("a"); polls != 0 {
			t.Errorf("a reconcile that changes nothing polls it %d times", polls)
		}
		w.let("a", says(2))
		w.track("c", w.at("a", "2"))
		if polls, told := w.polled("a"), w.told("c"); polls != 1 || told != 1 || w.poller.Latest(named("c"))["a"].Answer.Revision != 2 {
			t.Errorf("after its life has changed it is polled %d times immediately and %d changes are reported, want 1 and 1", polls, told)
		}
	})
}

func TestSilenceIsToldOnceAndKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.run(t)
		w.track("c", w.at("a", "1"))
		w.told("c")
		w.let("a", errs())
		began := time.Now().Add(time.Second)
		pass(10 * time.Minute)
		report := w.poller.Latest(named("c"))["a"]
		if told := w.told("c"); told != 1 || report.Answer != nil || !errors.Is(report.Err, errRefused) || !report.Since.Equal(began) {
			t.Errorf("%d changes are reported of %+v, want one since %s", told, report, began)
		}
		w.let("a", says(1))
		pass(30 * time.Second)
		if report := w.poller.Latest(named("c"))["a"]; w.told("c") != 1 || report.Answer == nil || report.Err != nil {
			t.Errorf("after it answers again it is %+v", report)
		}
	})
}

type rejectedError struct{}

func (rejectedError) Error() string { return "it rejects the operator" }

func TestAnotherReasonForSilenceIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", errs())
		w.run(t)
		w.track("c", w.at("a", "1"))
		w.told("c")
		w.let("a", func(context.Context) (publication.Report, error) { return publication.Report{}, rejectedError{} })
		pass(30 * time.Second)
		report := w.poller.Latest(named("c"))["a"]
		if _, is := errors.AsType[rejectedError](report.Err); !is || w.told("c") != 1 {
			t.Errorf("the report is %+v", report)
		}
	})
}

// However many agents hang, those of other clusters are polled when they are due.
func TestAgentsThatHangKeepNoOtherWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.run(t)
		for i := range 100 {
			hanging := fmt.Sprintf("hanging-%d", i)
			w.let(hanging, hangs)
			w.track(hanging, w.at(hanging, "1"))
		}
		w.track("c", w.at("a", "1"))
		pass(4 * time.Second)
		if polls := w.polled("a"); polls != 5 {
			t.Errorf("it is polled %d times in 4 seconds, want 5", polls)
		}
		w.polled("hanging-7")
		pass(time.Hour)
		w.polled("hanging-7")
		pass(330 * time.Second)
		if polls := w.polled("hanging-7"); polls != 10 {
			t.Errorf("an agent that hangs is polled %d times in 330 seconds, want 10", polls)
		}
	})
}

func TestWhatIsNotTrackedAnyMoreIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.let("b", hangs)
		w.run(t)
		w.track("c", w.at("a", "1"), w.at("b", "1"))
		w.track("c", w.at("a", "1")) // while b is polled
		pass(10 * time.Second)
		if latest := w.poller.Latest(named("c")); len(latest) != 1 || latest["a"].Answer == nil {
			t.Errorf("the reports are %+v, want that of a", latest)
		}
		w.poller.Forget(named("c"))
		w.polled("a")
		pass(time.Minute)
		if polls := w.polled("a"); polls != 0 || len(w.poller.Latest(named("c"))) != 0 {
			t.Errorf("an agent of a cluster that is gone is polled %d times", polls)
		}
	})
}

// What an agent says about its former life is replaced at once, though the poll was under way when that ended.
func TestAnAnswerOfAFormerLifeIsPolledAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", hangs)
		w.run(t)
		w.track("c", w.at("a", "1"))
		w.track("c", w.at("a", "2"))
		w.let("a", says(1))
		w.polled("a")
		pass(3 * time.Second)
		if polls := w.polled("a"); polls != 1 || w.poller.Latest(named("c"))["a"].Answer == nil {
			t.Errorf("it is polled %d times when the first poll has ended, want 1", polls)
		}
	})
}

// settable is a clock that may be set back.
type settable struct {
	clock.RealClock

	mu  sync.Mutex
	off time.Duration
}

func (c *settable) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func TestAClockThatIsSetBackPutsNoPollOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, moved := newWorld(), &settable{}
		w.let("a", says(1))
		w.poller = reports.New[publication.Report](moved)
		w.run(t)
		w.track("c", w.at("a", "1"))
		pass(time.Hour)
		moved.mu.Lock()
		moved.off = -24 * time.Hour
		moved.mu.Unlock()
		w.polled("a")
		pass(31 * time.Second)
		if polls := w.polled("a"); polls == 0 {
			t.Error("it is not polled after the clock was set back")
		}
	})
}

func TestATargetIsPolledAtItsPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pace   reports.Pace
		answer func(context.Context) (publication.Report, error)
		want   int
	}{
		"it is at rest":              {reports.Once, says(1), 0},
		"something is on its way":    {reports.Steadily, says(1), 60},
		"it reports the same":        {reports.Slower, says(1), 2},
		"it is silent at rest":       {reports.Once, errs(), 2},
		"it is silent, and awaited":  {reports.Steadily, errs(), 2},
		"it is silent, and reported": {reports.Slower, errs(), 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.let("a", c.answer)
				w.run(t)
				target := w.at("a", "1")
				target.Pace = c.pace
				w.track("c", target)
				pass(time.Hour)
				w.polled("a")
				pass(time.Minute)
				if polls := w.polled("a"); polls != c.want {
					t.Errorf("after an hour it is polled %d times in a minute, want %d", polls, c.want)
				}
				target.Process = "2"
				w.track("c", target)
				if polls := w.polled("a"); polls != 1 {
					t.Errorf("when it is another process it is polled %d times at once, want 1", polls)
				}
			})
		})
	}
}

// A reconcile that waits for the report of another life is started though the report is the same.
func TestTheFirstReportOfAnotherLifeOrProcessIsReported(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*reports.Target[publication.Report]){
		"life":    func(target *reports.Target[publication.Report]) { target.Life = "2" },
		"process": func(target *reports.Target[publication.Report]) { target.Process = "2" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.let("a", says(1))
				w.run(t)
				target := w.at("a", "1")
				w.track("c", target)
				w.told("c")
				began := time.Now()
				pass(time.Hour)
				change(&target)
				w.track("c", target)
				report := w.poller.Latest(named("c"))["a"]
				if told := w.told("c"); told != 1 || report.Life != target.Life || report.Process != target.Process || !report.Since.Equal(began) {
					t.Errorf("%d changes are reported of %+v, want one of what is so since %s", told, report, began)
				}
			})
		})
	}
}

func TestWhatAProcessReportedBeforeIsKeptForItAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.run(t)
		target := w.at("a", "1")
		w.track("c", target)
		w.let("a", says(2))
		pass(30 * time.Second)
		if report := w.poller.Latest(named("c"))["a"]; report.Before == nil || report.Before.Revision != 1 || report.Answer.Revision != 2 {
			t.Errorf("the report is %+v, want 2 after 1", report)
		}
		target.Process = "another"
		w.track("c", target)
		if report := w.poller.Latest(named("c"))["a"]; report.Before != nil {
			t.Errorf("another process is said to have reported %+v before", report.Before)
		}
	})
}

func TestAClusterIsKnownOnceEachOfItsAgentsWasPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.let("b", hangs)
		w.run(t)
		w.track("c", w.at("a", "1"), w.at("b", "1"))
		if w.poller.WasKnown(named("c")) {
			t.Error("it is known before b was given the time to answer")
		}
		pass(3 * time.Second)
		if !w.poller.WasKnown(named("c")) {
			t.Error("it is not known although b does not answer")
		}
		w.let("new", hangs)
		w.track("c", w.at("a", "1"), w.at("new", "1"))
		if !w.poller.WasKnown(named("c")) {
			t.Error("an agent that is new makes it unknown")
		}
		w.poller.Forget(named("c"))
		if w.poller.WasKnown(named("c")) || w.poller.Len() != 0 {
			t.Error("it is known after it was forgotten")
		}
	})
}

func TestSilenceThatBeganByAClockToComeBeginsNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, moved := newWorld(), &settable{off: 24 * time.Hour}
		w.let("a", errs())
		w.poller = reports.New[publication.Report](moved)
		w.run(t)
		w.track("c", w.at("a", "1"))
		moved.mu.Lock()
		moved.off = 0
		moved.mu.Unlock()
		pass(31 * time.Second)
		if report := w.poller.Latest(named("c"))["a"]; report.Since.After(time.Now()) {
			t.Errorf("it is silent since %s, and now it is %s", report.Since, time.Now())
		}
	})
}
