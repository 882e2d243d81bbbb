package apitest

import (
	"crypto/x509"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// A CA changes hands as it is, and clients have pinned what it was before.

// wantSentAlong checks how many cross certificates nodes send along, that those of
// before are among them, and that nothing is written at rest.
func (w *world) wantSentAlong(count int, before []*x509.Certificate) {
	w.t.Helper()
	sent := w.sentAlong()
	for _, cert := range before {
		if !slices.ContainsFunc(sent, cert.Equal) {
			w.t.Errorf("the cross certificate for %s by %s is not sent along any more", cert.Subject, cert.Issuer)
		}
	}
	if len(sent) != count {
		w.t.Errorf("%d cross certificates are sent along, want %d", len(sent), count)
	}
	writes := w.faulty.Written
	w.run(4)
	if w.faulty.Written != writes {
		w.t.Errorf("%d objects were written at rest", w.faulty.Written-writes)
	}
}

// replaced is a cluster at rest whose clients have pinned the CA before the present one.
func replaced(t *testing.T) *world {
	t.Helper()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.settle()
	w.restartEach()
	w.wantAlone(nextV)
	return w
}

func TestWhoPinnedAReplacedAuthorityIsServedAfterItsSuccessorWasHandedToTheUser(t *testing.T) {
	t.Parallel()
	w := replaced(t)
	sent := w.sentAlong()

	w.generate(false)
	w.settle()
	w.wantSentAlong(1, sent)

	w.clock.SetTime(start().Add(340 * authority.Day)) // leaves are renewed
	w.settle()
	w.wantSentAlong(1, sent)
}

func TestWhoPinnedAReplacedAuthorityIsServedAfterItsSuccessorWasHandedToAndFro(t *testing.T) {
	t.Parallel()
	w := replaced(t)
	sent := w.sentAlong()
	w.generate(false)
	w.settle()
	w.generate(true)
	w.settle()
	w.wantSentAlong(1, sent)

	w.replace(authorities.Cluster)
	w.settle()
	w.restartEach()
	w.wantSentAlong(2, sent)
	w.wantReady()
}

func TestWhoPinnedTheNameBeforeIsServedAfterAUsersAuthorityWasHandedOver(t *testing.T) {
	t.Parallel()
	w, _ := renamedOnce(t)
	sent := w.sentAlong()

	w.generate(true)
	w.settle()
	w.wantSentAlong(1, sent)

	for _, pod := range []string{"my-dual-0", "my-dual-1", "my-dual-2"} { // the key Secret remembers it
		w.delete(&corev1.Secret{}, pod)
	}
	w.settle()
	w.wantSentAlong(1, sent)
}

func TestADistrustedAuthorityVouchesForNobodyAfterAHandOver(t *testing.T) {
	t.Parallel()
	for name, distrust := range map[string]map[string]any{
		"together with a new key": {authorities.ForceReplaceAnnotation: asked, authority.DistrustAnnotation: authority.DistrustNow},
		"by itself":               {authority.DistrustAnnotation: authority.DistrustNow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := renamedOnce(t)
			w.generate(true)
			w.settle()

			w.pinned = nil
			w.annotate(&corev1.Secret{}, authorities.Cluster.KeySecret(clusterName), distrust)
			w.settle()
			w.wantSentAlong(0, nil)
			w.wantReady()
		})
	}
}
