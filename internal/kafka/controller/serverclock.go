package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kube"
)

// readClock sets the time of the observation to the API server's if the operator's
// clock is wrong.
func (r *Reconciler) readClock(o *observation) {
	ahead, isWrong := r.options.Ahead.Difference()
	if o.ahead = ahead; isWrong {
		o.now = o.now.Add(-ahead)
	}
}

func (o *observation) clockIsWrong() bool { return kube.ClockIsWrong(o.ahead) }

// handsOff reports whether the cluster is watched, and nothing in it is changed.
func (o *observation) handsOff() bool { return o.paused() || o.clockIsWrong() }

// reportClock says that nothing is done while the operator's clock is wrong, and goes on
// telling what expires by the API server's.
func (r *Reconciler) reportClock(ctx context.Context, c *applied) error {
	watched, failure := r.watch(ctx, c)
	status := *c.kafka.Status.DeepCopy()
	status.Conditions = c.conditions(slices.Concat(c.warnings(), watched, c.keptConditions(), []wanted{c.clockWarning()}))
	return errors.Join(failure, r.writeStatus(ctx, c.observation, status))
}

// keptConditions are the other conditions of the cluster. The cluster is reported as not ready once a certificate that it
// presents has expired, and as paused only while its resource asks for that.
func (c *applied) keptConditions() []wanted {
	ended := c.expired()
	reported := c.said(func(kind condition.Type) bool {
		told := ofTrust(kind) || kind == condition.Warning || ended.kind != "" && ofReadiness(kind)
		over := kind == condition.ReconciliationPaused && !c.paused()
		return !told && !over
	})
	if ended.kind == "" {
		return reported
	}
	return append(reported, ended)
}

func (o *observation) clockWarning() wanted {
	return holds(condition.Warning, reasonClock, fmt.Sprintf("the operator's clock is %s the API server's: nothing is changed and no certificate is renewed; "+
		"set the clock of the machine that the operator runs on, or that of the API server", kube.ClockDifference(o.ahead)))
}
