package apitest

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// usePrefix restarts the operator with a prefix for the names of Secrets.
func (w *world) usePrefix(prefix string) {
	w.prefix = prefix
	w.restart()
}

func TestAPrefixBeginsTheNameOfTheSecretAndNotOfTheUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.usePrefix("kafka-")
	w.user("alice", tls())
	w.reconcile("alice")
	if leaf := w.leaf("kafka-alice"); leaf.Subject.String() != "CN=alice" {
		t.Errorf("the subject is %q, want CN=alice", leaf.Subject)
	}
	if status := w.status("alice"); status.Secret != "kafka-alice" || status.Username != "CN=alice" {
		t.Errorf("the status is %+v, want Secret kafka-alice and username CN=alice", status)
	}
	err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "alice"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("there is a Secret without the prefix: %v", err)
	}
	w.atRest("alice")
	w.endCredentials("alice")
	w.reconcile("alice")
	err = w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "kafka-alice"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Secret of a user without credentials: %v, want that it is gone", err)
	}
}

func TestAnotherPrefixTakesTheCredentialsAlong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    kafkav1.KafkaUserSpec
		entries []string
	}{
		"certificate": {tls(), []string{"user.crt", "user.key", "user.p12", "user.password"}},
		"password":    {scram(), []string{"password", "sasl.jaas.config"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", c.spec)
			w.reconcile("alice")
			before := w.stored("alice")
			w.usePrefix("kafka-")
			w.reconcile("alice")
			after := w.stored("kafka-alice")
			for _, entry := range c.entries {
				if len(after.Data[entry]) == 0 || !bytes.Equal(before.Data[entry], after.Data[entry]) {
					t.Errorf("%s is not the same under the new name", entry)
				}
			}
			if old := w.stored("alice"); old.ResourceVersion != before.ResourceVersion {
				t.Error("the Secret that clients still mount was changed")
			}
			w.writer.Sent = 0
			if w.reconcile("alice"); w.writer.Sent > 0 {
				t.Errorf("%d writes although nothing has changed", w.writer.Sent)
			}
		})
	}
}

func TestAPrefixThatIsSwitchedBackKeepsTheCredentialsInUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    kafkav1.KafkaUserSpec
		replace func(w *world)
		entry   string
	}{
		"password":    {scram(), func(w *world) { w.remove("kafka-alice") }, "password"},
		"certificate": {tls(), func(w *world) { w.askForRenewal("kafka-alice", "true") }, "user.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", c.spec)
			w.reconcile("alice")
			w.usePrefix("kafka-")
			w.reconcile("alice")
			c.replace(w)
			w.reconcile("alice")
			inUse := w.stored("kafka-alice").Data[c.entry]
			if bytes.Equal(inUse, w.stored("alice").Data[c.entry]) {
				t.Fatal("the credentials were not replaced")
			}
			w.usePrefix("")
			w.reconcile("alice")
			if !bytes.Equal(inUse, w.stored("alice").Data[c.entry]) {
				t.Error("replaced credentials are in use again")
			}
		})
	}
}

func TestTwoUsersWithOneSecretNameDoNotShareIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("kafka-alice", tls())
	w.reconcile("kafka-alice")
	before := w.stored("kafka-alice")
	w.usePrefix("kafka-")
	w.user("alice", tls())
	w.reconcile("alice")
	reason, message, is := reasonOf(w.status("alice"), condition.NotReady)
	if !is || reason != "ForeignObject" || !strings.Contains(message, "Secret kafka-alice") {
		t.Errorf("the user is not ready: %t, because of %q: %q, want ForeignObject with the name of the Secret", is, reason, message)
	}
	if after := w.stored("kafka-alice"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the Secret of the other user was written")
	}
	w.atRest("alice")
}

func TestANameThatIsTooLongWithItsPrefixIsACondition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.usePrefix("kafka-")
	name := strings.Repeat("a", 253)
	w.user(name, scram())
	w.reconcile(name)
	if reason, message, is := reasonOf(w.status(name), condition.NotReady); !is || reason != "NameTooLong" || !strings.Contains(message, "259") {
		t.Errorf("the user is not ready: %t, because of %q: %q, want NameTooLong with the length", is, reason, message)
	}
	w.atRest(name)
}
