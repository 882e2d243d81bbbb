package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/controller"
)

const disruptions = kafkaName + "-disruption"

// busy answers reads of one name with a timeout.
type busy struct {
	client.Reader

	name string
}

func (b busy) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if key.Name == b.name {
		return apierrors.NewTimeoutError("etcd is busy", 1)
	}
	return b.Reader.Get(ctx, key, object, options...)
}

// late is a client whose records of disruptions somebody else always writes first.
type late struct{ client.Client }

func (c late) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if object.GetName() == disruptions {
		return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), object.GetName())
	}
	return c.Client.Create(ctx, object, options...)
}

// settled is a land with a cluster that is at rest and that nobody watches any more.
func settled(t *testing.T) *land {
	t.Helper()
	l := newLand(t, 0, vanish)
	trusted := l.trustIs(t, "Trusted", 0)
	l.run(t, l.operator(), []string{lively}, func(ctx context.Context) bool { return l.everybodyRuns(ctx, 1) && trusted(ctx) })
	l.kafkas, l.sets = newQueue(), newQueue()
	t.Cleanup(func() {
		l.kafkas.ShutDown()
		l.sets.ShutDown()
	})
	return l
}

func (l *land) livelyKafka(t *testing.T) *kafkav1.Kafka {
	t.Helper()
	var kafka kafkav1.Kafka
	if err := l.api.Get(t.Context(), requestFor(lively).NamespacedName, &kafka); err != nil {
		t.Fatal(err)
	}
	return &kafka
}

func TestALookAtAPausedClusterThatHasFailedIsRepeatedAndTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := settled(t)
		kafka := l.livelyKafka(t)
		kafka.Annotations = map[string]string{"strimzi.io/pause-reconciliation": "true"}
		if err := l.api.Update(t.Context(), kafka); err != nil {
			t.Fatal(err)
		}
		<-time.After(400 * 24 * time.Hour)
		o := l.options()
		o.Live = busy{o.Live, disruptions}

		if _, err := controller.New(o).Reconcile(t.Context(), requestFor(lively)); err == nil {
			t.Error("the look has failed, and is not repeated")
		}
		told := false
		for _, c := range l.livelyKafka(t).Status.Conditions {
			told = told || strings.Contains(c.Message, "etcd is busy")
		}
		if !told {
			t.Errorf("nobody is told: %+v", l.livelyKafka(t).Status.Conditions)
		}
	})
}

func TestARaceThatAnActLosesAgainAndAgainIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := settled(t)
		var pod corev1.Pod
		if err := l.api.Get(t.Context(), types.NamespacedName{Namespace: lively, Name: "my-dual-0"}, &pod); err != nil {
			t.Fatal(err)
		}
		pod.Annotations["strimzi.io/manual-rolling-update"] = "true"
		if err := l.api.Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		o := l.options()
		o.Client = late{o.Client}
		operator := controller.New(o)
		for range 10 {
			_, _ = operator.Reconcile(t.Context(), requestFor(lively)) // what it fails with is in the status
			operator.PollOnce(t.Context())
			<-time.After(time.Second)
		}

		told := false
		for _, c := range l.livelyKafka(t).Status.Conditions {
			told = told || strings.Contains(c.Message, "already exists")
			if strings.Contains(c.Message, "restarting my-dual-0") {
				t.Errorf("a restart is told that does not happen: %+v", c)
			}
		}
		if !told {
			t.Errorf("each reconcile has lost a race, and nobody is told: %+v", l.livelyKafka(t).Status.Conditions)
		}
	})
}
