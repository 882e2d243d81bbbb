package removal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/finalizers"
	"github.com/keyturn/keyturn/internal/kafka/finalizers/removal"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

func TestAKafkaThatCannotBeReadKeepsNoFinalizerOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object     client.Object
		finalizers finalizers.Kind
		reconciler func(removal.Options) *removal.Reconciler
	}{
		"a user":  {&kafkav1.KafkaUser{}, finalizers.Users, removal.Users},
		"a topic": {&kafkav1.KafkaTopic{}, finalizers.Topics, removal.Topics},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.object.SetNamespace("kafka")
			c.object.SetName("kept")
			c.object.SetFinalizers([]string{c.finalizers.Of("my-cluster"), c.finalizers.Of("other"), "example.com/another"})
			unreadable := errors.New("the API server does not answer")
			server := withoutKafka(t, c.object, "my-cluster", unreadable)
			r := c.reconciler(removal.Options{Client: server, Live: server, Events: events.NewFakeRecorder(1)})
			key := client.ObjectKeyFromObject(c.object)
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, unreadable) {
				t.Errorf("Reconcile() = %v, want the error, so that it is tried again", err)
			}
			if err := server.Get(t.Context(), key, c.object); err != nil {
				t.Fatal(err)
			}
			if want := []string{c.finalizers.Of("my-cluster"), "example.com/another"}; !slices.Equal(c.object.GetFinalizers(), want) {
				t.Errorf("finalizers %q, want %q", c.object.GetFinalizers(), want)
			}
		})
	}
}

// An object may have thousands of finalizers, each of another Kafka that never was.
func TestFinalizersOfManyKafkasAreRemovedTogether(t *testing.T) {
	t.Parallel()
	topic := &kafkav1.KafkaTopic{}
	topic.SetNamespace("kafka")
	topic.SetName("kept")
	for i := range 250 {
		topic.Finalizers = append(topic.Finalizers, finalizers.Topics.Of(fmt.Sprintf("absent-%d", i)))
	}
	topic.Finalizers = append(topic.Finalizers, "example.com/another")
	server := withoutKafka(t, topic, "", nil)
	patches := 0
	counting := interceptor.NewClient(server, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	r := removal.Topics(removal.Options{Client: counting, Live: server, Events: events.NewFakeRecorder(100)})
	key := client.ObjectKeyFromObject(topic)
	for range 3 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Get(t.Context(), key, topic); err != nil {
		t.Fatal(err)
	}
	if patches != 3 || !slices.Equal(topic.Finalizers, []string{"example.com/another"}) {
		t.Errorf("after %d patches %d finalizers are left, want 3 for 250 Kafkas and the one of somebody else", patches, len(topic.Finalizers))
	}
}

// withoutKafka is an API server with one object and no Kafka, at which that of a name cannot be read.
func withoutKafka(t *testing.T, object client.Object, kafka string, unreadable error) client.WithWatch {
	t.Helper()
	scheme := kubetest.Scheme(t, kafkav1.AddToScheme)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if unreadable != nil && key.Name == kafka {
				return unreadable
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
}
