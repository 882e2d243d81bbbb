package authority

import "time"

// Decide says what happens to one authority. The error is an
// *InvalidResourceError when a person has to act; then nothing is to be written and
// what runs goes on with what it has.
func Decide(in Input) (Decision, error) {
	if problems := in.Spec.problems(in.Kind); len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	if in.Spec.Source == UserProvided {
		return decideUserProvided(in)
	}
	_, problems := observe(in)
	return Decision{}, invalid(problems...)
}

type settling struct{}

// Settle says what the two CA Secrets shall hold.
func (d Decision) Settle(p Plan) (Settled, error) { return Settled{Transitions: d.Transitions}, nil }

// mustNotWait tells whether a certificate would end, or come within the last
// call of its end, before the next maintenance window.
func mustNotWait(w Window, notAfter time.Time, renewal time.Duration, now time.Time) bool {
	deadline := notAfter.Add(-lastCall(renewal))
	if !now.Before(deadline) {
		return true
	}
	return now.After(notAfter.Add(-renewal)) && w.Next.After(deadline)
}

// lastCall is how close to its end a certificate may come while it waits for a
// maintenance window that is not in sight.
func lastCall(renewal time.Duration) time.Duration { return min(Day, renewal/2) }
