package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/controller"
)

// stuck is an API server that takes no object, only statuses, and those only in time.
type stuck struct{ client.Client }

func (stuck) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s stuck) Status() client.SubResourceWriter { return punctual{s.Client.Status()} }

func (s stuck) SubResource(name string) client.SubResourceClient {
	return punctualAll{s.Client.SubResource(name)}
}

type punctual struct{ client.SubResourceWriter }

func (w punctual) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return w.SubResourceWriter.Apply(ctx, object, options...)
}

type punctualAll struct{ client.SubResourceClient }

func (w punctualAll) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return punctual{w.SubResourceClient}.Apply(ctx, object, options...)
}

func conditionsAfter(t *testing.T, end func(context.Context) (context.Context, context.CancelFunc)) string {
	t.Helper()
	l := newLand(t, 0, vanish)
	l.kafkas, l.sets = newQueue(), newQueue()
	defer l.kafkas.ShutDown()
	defer l.sets.ShutDown()
	o := l.options()
	o.Client = stuck{o.Client}
	ctx, cancel := end(t.Context())
	defer cancel()
	_, err := controller.New(o).Reconcile(ctx, requestFor(lively))
	if err == nil {
		t.Error("there is no error, so that the reconcile is not repeated")
	}
	var kafka kafkav1.Kafka
	if err := l.api.Get(t.Context(), requestFor(lively).NamespacedName, &kafka); err != nil {
		t.Fatal(err)
	}
	messages := []string{}
	for _, c := range kafka.Status.Conditions {
		messages = append(messages, c.Message)
	}
	return strings.Join(messages, "\n")
}

func TestAPassThatRanOutOfTimeIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := conditionsAfter(t, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Minute)
		})
		if !strings.Contains(got, context.DeadlineExceeded.Error()) {
			t.Errorf("the conditions say %q, want that time ran out", got)
		}
	})
}

func TestAnOperatorThatEndsReportsNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := conditionsAfter(t, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Minute, cancel)
			return ctx, cancel
		})
		if strings.Contains(got, context.Canceled.Error()) {
			t.Errorf("the conditions say %q", got)
		}
	})
}
