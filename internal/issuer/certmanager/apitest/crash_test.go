package apitest

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/internal/issuer"
)

func TestACrashAfterAnyWriteOfARequestLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for write, what := range []string{"the Certificate", "the owner of the Secret"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.traffic.lose(write + 1)
			crashes := 0
			w.until("the certificate is issued", func() bool {
				outcome, err := w.issuer().Issue(t.Context(), w.request(node))
				if errors.Is(err, errLost) {
					crashes++
					return false
				}
				if err != nil {
					t.Fatal(err)
				}
				_, is := outcome.(issuer.Issued)
				return is
			})

			if requests := len(w.list("CertificateRequest")); crashes != 1 || requests != 1 || len(w.secret(node+"-cm").OwnerReferences) != 1 {
				t.Errorf("%d crashes, %d CertificateRequests, owners of the Secret %v", crashes, requests, w.secret(node+"-cm").OwnerReferences)
			}
			w.traffic.since()
			w.issued(w.request(node))
			if _, writes := w.traffic.since(); len(writes) > 0 {
				t.Errorf("at rest there are the writes %q", writes)
			}
		})
	}
}

func TestACrashAfterAnyWriteOfAWithdrawalIsMadeUpFor(t *testing.T) {
	t.Parallel()
	for write := 1; write <= 4; write++ {
		t.Run(fmt.Sprintf("write %d", write), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.issued(w.request("a"))
			w.issued(w.request("b"))
			w.traffic.lose(write)

			if err := w.issuer().Withdraw(t.Context(), nil); !errors.Is(err, errLost) {
				t.Fatalf("got %v, want a crash", err)
			}
			// cert-manager may write a Secret once more before it sees that its Certificate is gone.
			w.until("nothing is left", func() bool {
				if err := w.issuer().Withdraw(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				return !w.isLeft("a") && !w.isLeft("b")
			})
		})
	}
}

func TestARequestThatCannotBeWithdrawnKeepsNoOther(t *testing.T) {
	t.Parallel()
	for what, object := range map[string]string{"its Certificate": "certificates/a", "its Secret": "secrets/a-cm"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.issued(w.request("a"))
			w.issued(w.request("b"))
			w.traffic.forbidden = []string{object}

			w.until("nothing of the other is left", func() bool {
				if err := w.issuer().Withdraw(t.Context(), nil); !apierrors.IsForbidden(err) {
					t.Fatalf("got %v, want a refusal", err)
				}
				return !w.isLeft("b")
			})
		})
	}
}

// isLeft reports whether there is a Certificate of a name, or its key.
func (w *world) isLeft(name string) bool {
	w.t.Helper()
	return w.find(w.object("Certificate", name, nil), name) || w.find(&corev1.Secret{}, name+"-cm")
}

func TestTwoOperatorsMakeOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var operators errgroup.Group
	for range 4 {
		operators.Go(func() error {
			_, err := w.issuer().Issue(t.Context(), w.request(node))
			return err
		})
	}
	if err := operators.Wait(); err != nil {
		t.Fatal(err)
	}
	w.issued(w.request(node))

	if requests := len(w.list("CertificateRequest")); requests != 1 {
		t.Errorf("%d CertificateRequests", requests)
	}
}
