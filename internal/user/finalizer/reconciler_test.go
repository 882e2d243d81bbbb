package finalizer_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/user/finalizer"
	"github.com/keyturn/keyturn/internal/user/model"
)

func TestAKafkaThatCannotBeReadKeepsNoFinalizerOfAnother(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kafkav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	unreadable := errors.New("the API server does not answer")
	user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kafka", Name: "my-user", Finalizers: []string{model.Finalizer("my-cluster"), model.Finalizer("other")},
	}}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(user).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "my-cluster" {
				return unreadable
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	key := client.ObjectKeyFromObject(user)

	r := finalizer.New(finalizer.Options{Client: server, Live: server, Events: events.NewFakeRecorder(1)})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, unreadable) {
		t.Errorf("Reconcile() = %v, want the error, so that it is tried again", err)
	}
	if err := server.Get(t.Context(), key, user); err != nil {
		t.Fatal(err)
	}
	if want := []string{model.Finalizer("my-cluster")}; !slices.Equal(user.Finalizers, want) {
		t.Errorf("finalizers %q, want %q", user.Finalizers, want)
	}
}
