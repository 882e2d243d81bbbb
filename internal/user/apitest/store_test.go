package apitest

import (
	"bytes"
	"testing"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// opens reports whether the user's store has the user's key and chain under its password.
func (w *world) opens(name string) bool {
	w.t.Helper()
	data := w.stored(name).Data
	key, err := pki.ParsePrivateKey(data["user.key"])
	if err != nil {
		w.t.Fatal(err)
	}
	return pki.KeyStoreHolds(data["user.p12"], string(data["user.password"]), key, w.chain(name))
}

func TestAStoreHasTheCertificateInUseUnderAPasswordThatStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	if !w.opens("alice") {
		t.Fatal("the store does not hold the certificate")
	}
	before := w.stored("alice").Data
	w.newCA("clients-ca v1")
	w.reconcile("alice")
	after := w.stored("alice").Data
	if !bytes.Equal(after["user.password"], before["user.password"]) {
		t.Error("the password changed with the certificate")
	}
	if bytes.Equal(after["user.p12"], before["user.p12"]) || !w.opens("alice") {
		t.Error("the store does not hold the new certificate")
	}
	w.atRest("alice")
}

func TestStoresGoWhenTheyAreSwitchedOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	w.stores = authority.WithoutStores
	w.restart()
	w.reconcile("alice")
	for _, entry := range []string{"user.p12", "user.password"} {
		if _, there := w.stored("alice").Data[entry]; there {
			t.Errorf("%s is still there", entry)
		}
	}
	w.atRest("alice")
}

func TestAPasswordThatNoStoreCanHaveIsAWarning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	secret := w.stored("alice")
	secret.Data["user.password"] = []byte("\U0001F511")
	if err := w.person.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.reconcile("alice")
	status := w.status("alice")
	if reason, message, warned := reasonOf(status, condition.Warning); !warned || reason != "InvalidPassword" {
		t.Errorf("the warning is %q: %q", reason, message)
	}
	if _, _, isReady := reasonOf(status, condition.Ready); !isReady {
		t.Error("a user whose certificate serves is not ready")
	}
	w.leaf("alice")
}
