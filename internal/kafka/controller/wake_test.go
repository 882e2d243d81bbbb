package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Nothing else starts a reconcile when only time has passed.
func TestAPassBeginsWhenTrustMovesOnByTimeAlone(t *testing.T) {
	t.Parallel()
	at := func(days int) time.Time { return noon().AddDate(0, 0, days) }
	for name, c := range map[string]struct {
		change func(p *applied)
		want   time.Time
	}{
		"a restart that somebody waits for has to be done": {func(p *applied) { p.clusterCA.Plan.Loads = []trust.Load{{Due: at(1)}} }, at(1)},
		"one of the clients CA":                            {func(p *applied) { p.clientsCA.Plan.Loads = []trust.Load{{Due: at(2)}} }, at(2)},
		"one that nobody waits for may be done in the next window": {
			func(p *applied) { p.clusterCA.Plan.Loads = []trust.Load{{MayBeDeferred: true}} }, at(3),
		},
		"a guard has been shut for long": {
			func(p *applied) { p.clusterCA.Plan.Blockers = []trust.Blocker{{Since: at(4)}} }, at(4).Add(rotation.Patience),
		},
		"applications have had their time": {func(p *applied) {
			p.clientsCA.Snapshot.Application.Since, p.clientsCA.Snapshot.Policy.Lead = at(5), time.Hour
		}, at(5).Add(time.Hour)},
		"an anchor ends": {func(p *applied) { p.clientsCA.Snapshot.Anchors = []trust.Anchor{{NotAfter: at(6)}} }, at(6)},
		"a cross certificate is to be taken off": {func(p *applied) {
			p.clusterCA.Snapshot.Anchors = []trust.Anchor{{Cross: []trust.Cross{{NotAfter: at(7)}}}}
		}, at(7).Add(-authority.Day)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clusterOf(smallKafka(), nil)
			p.window.Next = at(3)
			c.change(p)
			p.wakeForTrust()
			if !slices.ContainsFunc(p.wakeAt, c.want.Equal) {
				t.Errorf("a reconcile begins at %v, want %s", p.wakeAt, c.want)
			}
		})
	}
}

func TestNoPassBeginsForAWindowWhileNoRestartMayWaitForIt(t *testing.T) {
	t.Parallel()
	c := clusterOf(smallKafka(), nil)
	c.window.Next = noon().AddDate(0, 0, 3)
	c.clusterCA.Plan.Loads = []trust.Load{{Due: noon().AddDate(0, 0, 1)}}
	c.clusterCA.Plan.Blockers = []trust.Blocker{{}}
	c.wakeForTrust()
	for _, at := range []time.Time{c.window.Next, (time.Time{}).Add(rotation.Patience)} {
		if slices.ContainsFunc(c.wakeAt, at.Equal) {
			t.Errorf("a reconcile begins at %v", c.wakeAt)
		}
	}
}
