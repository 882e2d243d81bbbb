package apitest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
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

func TestASecretThatIsCreatedSinceItWasLookedForIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]kafkav1.KafkaUserSpec{"of a user with a certificate": tls(), "of a user with a password": scram()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", spec)
			theirs := &corev1.Secret{ObjectMeta: w.meta("alice"), Data: map[string][]byte{"password": []byte("theirs"), "ca.crt": []byte("theirs")}}
			w.live = &liveReader{Reader: w.asOperator, then: sync.OnceFunc(func() { w.create(theirs) })}
			w.restart()
			if _, err := w.try("alice"); !apierrors.IsAlreadyExists(err) {
				t.Errorf("the error is %v, want that the Secret exists", err)
			}
			w.reconcile("alice")
			if got := w.stored("alice"); got.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("the Secret was changed: it has owners %v and entries %v", got.OwnerReferences, slices.Sorted(maps.Keys(got.Data)))
			}
			if reason, _, _ := reasonOf(w.status("alice"), condition.NotReady); reason != "ForeignObject" {
				t.Errorf("the user is not ready because of %q, want ForeignObject", reason)
			}
		})
	}
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
	w.writer.Sent = 0
	w.reconcile("alice")
	if w.writer.Sent > 0 {
		t.Errorf("%d writes for a user that is gone", w.writer.Sent)
	}
	w.remove("alice") // as the garbage collector does
	w.user("alice", tls())
	w.reconcile("alice")
	w.leaf("alice")
}
