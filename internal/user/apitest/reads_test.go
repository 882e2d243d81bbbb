package apitest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// liveReader counts what is read past the cache, and does something after the Secret of alice was read.
type liveReader struct {
	client.Reader

	reads int
	then  func()
}

func (r *liveReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	r.reads++
	err := r.Reader.Get(ctx, key, into, opts...)
	if _, is := into.(*corev1.Secret); is && key.Name == "alice" && r.then != nil {
		r.then()
	}
	return err
}

func TestAnEventThatChangesNothingCostsNoRequestPastTheCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.live = &liveReader{Reader: w.asOperator}
	w.restart()
	w.user("alice", tls())
	w.reconcile("alice")
	before := w.live.reads
	w.reconcile("alice")
	if w.live.reads != before {
		t.Errorf("%d requests although nothing has changed", w.live.reads-before)
	}
	w.newCA("clients-ca v1")
	w.reconcile("alice")
	if w.live.reads == before {
		t.Error("a changed clients CA was not read")
	}
}

func TestASecretThatChangedSinceItWasReadIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	w.newCA("clients-ca v1")
	w.live = &liveReader{Reader: w.asOperator, then: func() { w.label("alice") }}
	w.restart()
	if _, err := w.try("alice"); !apierrors.IsConflict(err) {
		t.Errorf("the error is %v, want a conflict", err)
	}
	w.live.then = nil
	w.restart()
	w.reconcile("alice")
	w.atRest("alice")
}

// label changes the Secret of a user as another writer does.
func (w *world) label(name string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"changed": "meanwhile"}}}`))
	if err := w.person.Patch(w.t.Context(), &corev1.Secret{ObjectMeta: w.meta(name)}, patch); err != nil {
		w.t.Fatal(err)
	}
}

func TestADeletedUserIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	if err := w.person.Delete(t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta("alice")}); err != nil {
		t.Fatal(err)
	}
	w.writer.writes = 0
	w.reconcile("alice")
	if w.writer.writes > 0 {
		t.Errorf("%d writes for a user that is gone", w.writer.writes)
	}
	w.remove("alice") // as the garbage collector does
	w.user("alice", tls())
	w.reconcile("alice")
	w.leaf("alice")
}
