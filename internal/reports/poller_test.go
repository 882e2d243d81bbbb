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

	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// world has agents by their addresses, and counts how often each is polled.
type world struct {
	poller *reports.Poller

	mu      sync.Mutex
	answers map[string]func(context.Context) (publication.Report, error)
	polls   map[string]int
	changed map[string]int
}

func newWorld() *world {
	w := &world{answers: map[string]func(context.Context) (publication.Report, error){}, polls: map[string]int{}, changed: map[string]int{}}
	w.poller = reports.New(reports.Options{
		Clock:  clock.RealClock{},
		Agents: func(mtls.Credentials) reports.Agents { return w },
		Changed: func(_ context.Context, owner types.NamespacedName) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed[owner.Name]++
		},
	})
	return w
}

func (w *world) TLS(ctx context.Context, node client.Node) (publication.Report, error) {
	w.mu.Lock()
	w.polls[node.Address]++
	answer := w.answers[node.Address]
	w.mu.Unlock()
	return answer(ctx)
}

func (w *world) let(address string, answer func(context.Context) (publication.Report, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[address] = answer
}

// track has the agents of a cluster polled, and waits until those have answered that do so immediately.
func (w *world) track(owner string, agents ...reports.Target) {
	w.poller.Track(named(owner), mtls.Credentials{}, agents)
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
	go func() { ended <- w.poller.Run(ctx) }()
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

func at(uid, life string) reports.Target {
	return reports.Target{UID: types.UID(uid), Life: life, Node: client.Node{Address: uid}}
}

func TestAnAgentAtRestIsPolledSeldomAndSoonAfterAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.let("a", says(1))
		w.run(t)
		w.track("c", at("a", "1"))
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
		w.track("c", at("a", "1"))
		if polls := w.polled("a"); polls != 0 {
			t.Errorf("a reconcile that changes nothing polls it %d times", polls)
		}
		w.let("a", says(2))
		w.track("c", at("a", "2"))
		if polls, told := w.polled("a"), w.told("c"); polls != 1 || told != 1 || w.poller.Latest(named("c"))["a"].TLS.Revision != 2 {
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
		w.track("c", at("a", "1"))
		w.told("c")
		w.let("a", errs())
		began := time.Now().Add(time.Second)
		pass(10 * time.Minute)
		report := w.poller.Latest(named("c"))["a"]
		if told := w.told("c"); told != 1 || report.TLS != nil || !errors.Is(report.Err, errRefused) || !report.Since.Equal(began) {
			t.Errorf("%d changes are reported of %+v, want one since %s", told, report, began)
		}
		w.let("a", says(1))
		pass(30 * time.Second)
		if report := w.poller.Latest(named("c"))["a"]; w.told("c") != 1 || report.TLS == nil || report.Err != nil {
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
		w.track("c", at("a", "1"))
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
			w.track(hanging, at(hanging, "1"))
		}
		w.track("c", at("a", "1"))
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
		w.track("c", at("a", "1"), at("b", "1"))
		w.track("c", at("a", "1")) // while b is polled
		pass(10 * time.Second)
		if latest := w.poller.Latest(named("c")); len(latest) != 1 || latest["a"].TLS == nil {
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
		w.track("c", at("a", "1"))
		w.track("c", at("a", "2"))
		w.let("a", says(1))
		w.polled("a")
		pass(3 * time.Second)
		if polls := w.polled("a"); polls != 1 || w.poller.Latest(named("c"))["a"].TLS == nil {
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
		w.poller = reports.New(reports.Options{
			Clock: moved, Agents: func(mtls.Credentials) reports.Agents { return w }, Changed: func(context.Context, types.NamespacedName) {},
		})
		w.run(t)
		w.track("c", at("a", "1"))
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
