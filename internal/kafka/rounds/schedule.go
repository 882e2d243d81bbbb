// Package rounds says when an operator asks a Kafka again for all that it holds: one round of descriptions serves all objects.
package rounds

import "time"

// Lag is longer than a broker takes to learn of a change: a round does not undo what was written since.
const Lag = 5 * time.Second

const (
	// pause is how long what Kafka holds is known without asking again.
	pause = time.Minute
	// firstRetry and lastRetry bound the pause after a failure.
	firstRetry = time.Second
	lastRetry  = 15 * time.Second
)

// Schedule is when the next round is due, and why the last attempt to reach Kafka has failed. The zero Schedule is due at once.
// It is not for concurrent use.
type Schedule struct {
	next     time.Time
	failures int
	failure  error
	// isStuck: the last change failed. That objects can be described ends a failure, and not the pauses between them.
	isStuck bool
}

// Restart makes a round due at once: another cluster has the name.
func (s *Schedule) Restart() { s.next, s.failures, s.failure = time.Time{}, 0, nil }

// Due reports whether a round is due. The error is that of the last attempt.
func (s *Schedule) Due(now time.Time) (bool, error) { return !now.Before(s.next), s.failure }

// Next is when the next round is due.
func (s *Schedule) Next() time.Time { return s.next }

// Fail notes that Kafka was not reached. The pauses double up to the longest one.
func (s *Schedule) Fail(err error, now time.Time) {
	s.failure = err
	s.next = now.Add(min(firstRetry<<min(s.failures, 10), lastRetry))
	s.failures++
}

// Described notes that a round has succeeded.
func (s *Schedule) Described(now time.Time) {
	s.failure, s.next = nil, now.Add(pause)
	if !s.isStuck {
		s.failures = 0
	}
}

// FailChange notes that a change did not reach Kafka: nothing else is tried until the next round.
func (s *Schedule) FailChange(err error, now time.Time) {
	if s.failure == nil {
		s.isStuck = true
		s.Fail(err, now)
	}
}

// Changed notes that a change has reached Kafka.
func (s *Schedule) Changed() { s.isStuck, s.failures = false, 0 }

// Hasten makes the next round due once brokers have learned of changes: Kafka has shown something else than it was described with.
func (s *Schedule) Hasten(now time.Time) {
	if at := now.Add(Lag); at.Before(s.next) {
		s.next = at
	}
}
