package apitest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// Secrets are read one after the other, so that another operator that believes to lead
// may write between two of them.

// interrupted is what an operator reads while another one gets on before one of its
// looks at Secrets.
type interrupted struct {
	client.Client

	looks, before int
	getsOn        func()
}

// Get counts looks at Secrets.
func (i *interrupted) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if _, secret := into.(*corev1.Secret); secret {
		i.looks++
		if i.looks == i.before {
			i.getsOn()
		}
	}
	return i.Client.Get(ctx, name, into, opts...)
}

func TestWhatAnotherOperatorWritesBetweenTwoReadsIsNotTurnedBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		standing bool
		change   func(w *world)
		// looks are as many as a pass takes at least.
		looks      int
		generation string
	}{
		"a cluster is made":                {false, func(w *world) { w.dualRole(1) }, 7, "0"},
		"the key of its CA is replaced":    {true, func(w *world) { w.replace(authorities.Cluster) }, 8, "1"},
		"the certificate of it is renewed": {true, func(w *world) { w.renew(authorities.Cluster) }, 8, "0"},
	} {
		for before := 1; before <= c.looks; before++ {
			t.Run(fmt.Sprintf("%s, look %d", name, before), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				if c.standing {
					w.dualRole(1)
					w.settle()
				}
				other := w.newReconciler(w.faulty)
				reads := &interrupted{Client: w.faulty, before: before, getsOn: func() { w.reconcile(other) }}
				slow := w.newReconcilerBeside(w.faulty, reads)

				c.change(w)
				w.reconcile(slow)
				w.settle()

				w.wantReady()
				if reads.looks < before {
					t.Errorf("only %d Secrets were looked at", reads.looks)
				}
				w.wantGeneration(authorities.Cluster, c.generation)
				w.wantGeneration(authorities.Clients, "0")
			})
		}
	}
}

// wantGeneration checks that as many keys were made as were asked for, and that the
// certificate belongs to the last of them.
func (w *world) wantGeneration(kind authorities.Kind, want string) {
	w.t.Helper()
	key := w.secret(kind.KeySecret(clusterName))
	if got := key.Annotations[authorities.KeyGenerationAnnotation]; got != want {
		w.t.Errorf("%s: the key is generation %s, want %s", kind, got, want)
	}
	held, err := pki.ParsePrivateKey(key.Data[authority.KeyKey])
	if err != nil || !held.Matches(w.caCertificate(kind)) {
		w.t.Errorf("%s: the key does not belong to the certificate: %v", kind, err)
	}
}
