package rounds_test

import (
	"errors"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/rounds"
)

var errAway = errors.New("away")

func pauses(t *testing.T, s *rounds.Schedule, now time.Time, want time.Duration) {
	t.Helper()
	if got := s.Next().Sub(now); got != want {
		t.Errorf("the next round is due in %s, want %s", got, want)
	}
}

func TestARoundIsDueAtOnceAndThenEachMinute(t *testing.T) {
	t.Parallel()
	var s rounds.Schedule
	now := time.Unix(1_000_000, 0)
	if isDue, err := s.Due(now); !isDue || err != nil {
		t.Errorf("due is %t, %v", isDue, err)
	}
	s.Described(now)
	pauses(t, &s, now, time.Minute)
	if isDue, _ := s.Due(now.Add(time.Minute - 1)); isDue {
		t.Error("a round is due before its minute is over")
	}
	s.Restart()
	if isDue, _ := s.Due(now); !isDue {
		t.Error("no round is due although another cluster has the name")
	}
}

func TestPausesAfterFailuresGrowUntilARoundSucceeds(t *testing.T) {
	t.Parallel()
	var s rounds.Schedule
	now := time.Unix(1_000_000, 0)
	for _, want := range []int{1, 2, 4, 8, 15, 15} {
		s.Fail(errAway, now)
		pauses(t, &s, now, time.Duration(want)*time.Second)
	}
	if _, err := s.Due(now); !errors.Is(err, errAway) {
		t.Errorf("error %v, want that of the last attempt", err)
	}
	s.Described(now)
	if _, err := s.Due(now); err != nil {
		t.Errorf("error %v after a round that succeeded", err)
	}
	s.Fail(errAway, now)
	pauses(t, &s, now, time.Second)
}

// Otherwise a cluster that can be described and not be changed would be asked each second.
func TestPausesGrowWhileChangesFailAlthoughRoundsSucceed(t *testing.T) {
	t.Parallel()
	var s rounds.Schedule
	now := time.Unix(1_000_000, 0)
	for _, want := range []int{1, 2, 4} {
		s.FailChange(errAway, now)
		pauses(t, &s, now, time.Duration(want)*time.Second)
		s.Described(now)
	}
	s.FailChange(errAway, now)
	s.FailChange(errAway, now) // of another object at the same time
	pauses(t, &s, now, 8*time.Second)
	s.Described(now)
	s.Changed()
	s.FailChange(errAway, now)
	pauses(t, &s, now, time.Second)
}

func TestADoubtHastensTheNextRoundAndDelaysNone(t *testing.T) {
	t.Parallel()
	var s rounds.Schedule
	now := time.Unix(1_000_000, 0)
	s.Described(now)
	s.Hasten(now)
	pauses(t, &s, now, rounds.Lag)
	s.Fail(errAway, now)
	s.Hasten(now)
	pauses(t, &s, now, time.Second)
}
