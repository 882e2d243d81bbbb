package apitest

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/authority"
)

// Clusters in which nothing is changed, because somebody has paused them or because the
// operator's clock is wrong: what expires is told all the same.

// A year is longer than leaves last.
const overAYear = 366 * authority.Day

func TestAWrongClockDoesNotHideThatCertificatesHaveExpired(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			w.nobodyReads()
			w.ahead = ahead
			w.run(3)
			w.wantReady()
			w.wantCondition(condition.Warning, "clock")

			w.clock.SetTime(start().Add(overAYear))
			w.run(3)
			w.wantCondition(condition.NotReady, "expired certificates are presented by", "my-dual-0")
			w.wantCondition(condition.Warning, "clock")
			if has(w.getKafka(), condition.Ready) {
				t.Error("it is Ready as well")
			}
		})
	}
}

func TestAPausedClusterIsLookedAtWhenItsCertificatesExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	w.nobodyReads()
	w.patch(kafkaResource(w.namespace), clusterName, map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"strimzi.io/pause-reconciliation": "true"},
	}})
	result, err := w.round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ends := w.leafOf("my-dual-0").NotAfter
	if again := w.clock.Now().Add(result.RequeueAfter); result.RequeueAfter == 0 || again.After(ends.Add(time.Minute)) {
		t.Errorf("it is looked at again after %s, and its certificates expire in %s", result.RequeueAfter, ends.Sub(w.clock.Now()))
	}
	w.clock.SetTime(ends.Add(time.Minute))
	w.run(1)
	valid := w.getKafka().Status.Conditions
	if !slices.ContainsFunc(valid, func(c condition.Condition) bool { return c.Type == "CertificatesValid" && c.Status == condition.False }) {
		t.Errorf("conditions are %+v, want CertificatesValid to be False", valid)
	}
}
