package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keyturn/keyturn/internal/issuer/certmanager"
)

// cert-manager writes keys while the operator does not run, and the owner of the Certificate is deleted.

func TestAKeyThatWasWrittenForAnOwnerThatIsGoneIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves(node)
	w.create(&corev1.Secret{ObjectMeta: w.meta("another" + certmanager.SecretSuffix)})

	w.sweeps()

	if w.find(&corev1.Secret{}, node+certmanager.SecretSuffix) {
		t.Error("the key that nothing refers to still exists")
	}
	if !w.find(&corev1.Secret{}, "another"+certmanager.SecretSuffix) {
		t.Error("a Secret that cert-manager has not written is gone")
	}
}

func TestAKeyStaysThatIsOwnedOrMayOutliveItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request("owned"))
	w.options.References = certmanager.WithoutReferences
	w.leaves("kept")

	w.sweeps()

	for _, name := range []string{"owned", "kept"} {
		if !w.find(&corev1.Secret{}, name+certmanager.SecretSuffix) {
			t.Errorf("the key of Certificate %s is gone", name)
		}
	}
}

func TestAKeyThatCannotBeSweptKeepsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves("a")
	w.leaves("b")
	w.traffic.forbidden = []string{"secrets/a" + certmanager.SecretSuffix}

	if err := w.sweep(); !apierrors.IsForbidden(err) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if w.find(&corev1.Secret{}, "b"+certmanager.SecretSuffix) {
		t.Error("the other key still exists")
	}
}

// leaves requests a certificate, and takes the Certificate away when cert-manager has written the key.
func (w *world) leaves(name string) {
	w.t.Helper()
	w.pending(w.request(name))
	w.until("the certificate is issued", func() bool { return isReady(w.certificate(name)) })
	if owners := w.secret(name + certmanager.SecretSuffix).OwnerReferences; len(owners) > 0 {
		w.t.Fatalf("the Secret refers to %v", owners)
	}
	if err := w.person.Delete(w.t.Context(), w.certificate(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sweeps() {
	w.t.Helper()
	if err := w.sweep(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sweep() error {
	w.t.Helper()
	live, is := w.options.Secrets.(certmanager.Live)
	if !is {
		w.t.Fatal("Secrets are not read from the API server")
	}
	return live.Sweep(w.t.Context(), w.namespace, labels.SelectorFromSet(w.options.Selector))
}
