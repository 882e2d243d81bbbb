package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/pki"
)

// clockPause lies between two looks at a clock that is wrong: nothing tells when it is set.
const clockPause = 10 * time.Second

// readClock says by everybody else's clock when the cluster was observed, if the
// operator's own is wrong.
func (r *Reconciler) readClock(o *observation) {
	if r.options.Ahead == nil {
		return
	}
	if o.ahead = r.options.Ahead(); o.clockIsWrong() {
		o.now = o.now.Add(-o.ahead)
	}
}

// clockIsWrong reports whether nothing may be issued by the operator's clock. Certificates
// are valid from the time of their issue less pki.Backdate: those of a clock that is
// further ahead would be refused by everybody, and one that is behind takes what others
// have issued for not valid yet.
func (o *observation) clockIsWrong() bool { return o.ahead.Abs() > pki.Backdate }

// handsOff reports whether the cluster is watched, and nothing in it is changed.
func (o *observation) handsOff() bool { return o.paused() || o.clockIsWrong() }

// reportClock says that nothing is done while the operator's clock is wrong, and goes on
// telling what expires by the API server's.
func (r *Reconciler) reportClock(ctx context.Context, p *pass) error {
	watched, failure := r.watch(ctx, p)
	status := *p.kafka.Status.DeepCopy()
	status.Conditions = p.conditions(slices.Concat(p.warnings(), watched, p.stillSaid(), []wanted{p.clockWarning()}))
	return errors.Join(failure, r.writeStatus(ctx, p, status))
}

// stillSaid is what else was said of the cluster, save that it is not ready once what it
// presents has expired, and not paused once nobody wants it to be.
func (p *pass) stillSaid() []wanted {
	ended := p.expired()
	said := p.said(func(kind condition.Type) bool {
		told := ofTrust(kind) || kind == condition.Warning || ended.kind != "" && ofReadiness(kind)
		over := kind == condition.ReconciliationPaused && !p.paused()
		return !told && !over
	})
	if ended.kind == "" {
		return said
	}
	return append(said, ended)
}

// clockWarning keeps its words for as long as they are about right: by how much the clock
// differs is measured a little differently each time.
func (p *pass) clockWarning() wanted {
	for _, c := range p.kafka.Status.Conditions {
		if c.Type == condition.Warning && c.Reason == reasonClock && isAbout(saidAhead(c.Message), p.ahead) {
			return holds(condition.Warning, reasonClock, c.Message)
		}
	}
	direction := clockAhead
	if p.ahead < 0 {
		direction = clockBehind
	}
	return holds(condition.Warning, reasonClock, fmt.Sprintf(clockDiffers+
		"the API server's: nothing is changed and no certificate is renewed until they differ by less than %s; "+
		"set the clock of the machine that the operator runs on, or that of the API server", p.ahead.Abs().Round(time.Minute), direction, pki.Backdate))
}

// How the warning about the clock begins, and its directions.
const (
	clockDiffers = "the operator's clock is %s %s "
	clockAhead   = "ahead of"
	clockBehind  = "behind"
)

// saidAhead is by how much an earlier warning says that the clock is ahead; zero when it
// cannot be read.
func saidAhead(message string) time.Duration {
	var size, direction string
	if _, err := fmt.Sscanf(message, clockDiffers, &size, &direction); err != nil {
		return 0
	}
	ahead, err := time.ParseDuration(size)
	if err != nil {
		return 0
	}
	if direction == clockBehind {
		return -ahead
	}
	return ahead
}

// isAbout reports whether two differences of clocks would be told in the same words, but
// for what drifts and is rounded.
func isAbout(said, ahead time.Duration) bool {
	return (said - ahead).Abs() <= max(ahead.Abs()/clockTolerance, 2*time.Minute)
}

// clockTolerance is the part of a difference by which another one may differ from it.
const clockTolerance = 10
