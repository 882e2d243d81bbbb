package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/pki"
)

// clockPause lies between two looks at a clock that is wrong: nothing tells when it is set.
const clockPause = 10 * time.Second

func (r *Reconciler) ahead() time.Duration {
	if r.options.Ahead == nil {
		return 0
	}
	return r.options.Ahead()
}

// reportClock says that nothing is done while the operator's clock is wrong, and leaves the
// rest of the status as it was. Certificates are valid from the time of their issue less
// pki.Backdate: those of a clock that is further ahead would be refused by everybody, and
// one that is behind takes what others have issued for not valid yet.
func (r *Reconciler) reportClock(ctx context.Context, p *pass, ahead time.Duration) error {
	said := func(c condition.Condition) bool { return c.Type == condition.Warning && c.Reason == reasonClock }
	if slices.ContainsFunc(p.kafka.Status.Conditions, said) {
		return nil
	}
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	status := *p.kafka.Status.DeepCopy()
	status.Conditions = append(status.Conditions, conditionsSince([]wanted{holds(condition.Warning, reasonClock, fmt.Sprintf(
		"the operator's clock is %s %s the API server's: nothing is changed and no certificate is renewed until they differ by less than %s; "+
			"set the clock of the machine that the operator runs on, or that of the API server", ahead.Abs().Round(time.Minute), direction, pki.Backdate,
	))}, nil, p.now.Add(-ahead))...)
	return r.writeStatus(ctx, p, status)
}
