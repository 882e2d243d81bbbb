package kube

import (
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// ClockPause lies between two looks at a clock that is wrong: no event tells when it is set.
const ClockPause = 10 * time.Second

// ClockGate tells how much the operator's clock is ahead of the API server's; nil when that is unknown.
type ClockGate func() time.Duration

// Difference is how much the clock is ahead, and whether that is too much to issue by it: see ClockIsWrong.
func (g ClockGate) Difference() (ahead time.Duration, isWrong bool) {
	if g == nil {
		return 0, false
	}
	ahead = g()
	return ahead, ClockIsWrong(ahead)
}

// ClockIsWrong reports whether nothing may be issued by a clock. Certificates are valid from the time of their issue less pki.Backdate:
// those of a clock that is further ahead are rejected, and for one that is behind those of others are not valid yet.
func ClockIsWrong(ahead time.Duration) bool { return ahead.Abs() > pki.Backdate }

// ClockDifference is how a clock is said to be that is wrong, in the same words while it differs in one direction, for example "more
// than 15m0s ahead of". What it differs from follows.
func ClockDifference(ahead time.Duration) string {
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("more than %s %s", pki.Backdate, direction)
}
