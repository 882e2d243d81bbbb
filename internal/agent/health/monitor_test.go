package health_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/agent/health"
)

var errDown = errors.New("down")

// watched runs a monitor over answers; it hands each report out and goes on when
// the report has been taken.
type watched struct {
	clock   *clocktesting.FakeClock
	hints   chan struct{}
	reports chan error
}

func watch(t *testing.T, answers ...error) *watched {
	t.Helper()
	w := &watched{clock: clocktesting.NewFakeClock(time.Now()), hints: make(chan struct{}), reports: make(chan error)}
	m := health.Monitor{
		Clock: w.clock, Hints: w.hints, Eager: time.Second, Calm: 10 * time.Second,
		Check: func(context.Context) error {
			if len(answers) == 0 {
				return errDown
			}
			next := answers[0]
			answers = slices.Delete(answers, 0, 1)
			return next
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx, func(err error) {
			select {
			case w.reports <- err:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// report returns the next report, the one that comes without time passing.
func (w *watched) report(t *testing.T, want error) {
	t.Helper()
	if got := <-w.reports; !errors.Is(got, want) {
		t.Errorf("report %v, want %v", got, want)
	}
}

// pass lets the time pass once the monitor has begun to wait.
func (w *watched) pass(d time.Duration) {
	for !w.clock.HasWaiters() {
		runtime.Gosched()
	}
	w.clock.Step(d)
}

func TestServerIsAskedOftenUntilItServesAndRarelyAfterwards(t *testing.T) {
	t.Parallel()
	w := watch(t, errDown, nil, nil)
	w.report(t, errDown)
	w.pass(time.Second)
	w.report(t, nil)
	w.pass(9 * time.Second)
	select {
	case err := <-w.reports:
		t.Errorf("report %v before its time", err)
	default:
	}
	w.pass(time.Second)
	w.report(t, nil)
}

func TestHintIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	w := watch(t, errDown, nil)
	w.report(t, errDown)
	w.hints <- struct{}{}
	w.report(t, nil)
}

func TestServerThatServedIsAskedTwice(t *testing.T) {
	t.Parallel()
	w := watch(t, nil, errDown, nil, errDown, errDown)
	w.report(t, nil)
	w.pass(10 * time.Second)
	w.report(t, nil) // the first question failed, the second did not
	w.pass(10 * time.Second)
	w.report(t, errDown)
}
