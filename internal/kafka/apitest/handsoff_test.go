package apitest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
)

// Clusters in which nothing is changed, because somebody has paused them, because the
// operator's clock is wrong, or because it may not look: that and what expires is told.

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

// forbidden is an operator that may not read pools any more.
type forbidden struct {
	client.Client

	taken bool
}

func (f *forbidden) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; f.taken && strings.HasPrefix(kind, "KafkaNodePool") {
		return apierrors.NewForbidden(schema.GroupResource{Group: "kafka.strimzi.io", Resource: "kafkanodepools"}, "", nil)
	}
	return f.Client.List(ctx, list, opts...)
}

func TestWhatKeepsTheOperatorFromLookingIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(1)
	w.settle()
	rights := &forbidden{Client: w.faulty, taken: true}
	operator := w.newReconcilerBeside(w.faulty, rights)

	if _, err := operator.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)}); err == nil {
		t.Error("it is not tried again by itself")
	}
	w.wantCondition(condition.NotReady, "kafkanodepools", "forbidden")
	w.wantCondition("CertificatesValid", "expire")
	if has(w.getKafka(), condition.Ready) {
		t.Error("it is Ready as well")
	}

	rights.taken = false
	w.reconcile(operator)
	w.wantReady()
}
