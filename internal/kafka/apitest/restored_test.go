package apitest

import (
	"maps"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// CA Secrets that come from a backup, or are gone for good: no generation and no name is
// given to a second key. checkGenerations judges every write.

// backup is what docs/backup.md has people save of an authority.
func (w *world) backup(kind authorities.Kind) []*corev1.Secret {
	w.t.Helper()
	var saved []*corev1.Secret
	for _, name := range []string{kind.KeySecret(clusterName), kind.CertSecret(clusterName)} {
		secret := w.secret(name)
		saved = append(saved, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: w.namespace, Labels: secret.Labels, Annotations: maps.Clone(secret.Annotations),
			},
			Data: secret.Data,
		})
	}
	return saved
}

// restore deletes what is there and puts a backup in its place.
func (w *world) restore(saved []*corev1.Secret) {
	w.t.Helper()
	for _, secret := range saved {
		if _, exists := w.stored.secrets[secret.Name]; exists {
			w.delete(&corev1.Secret{}, secret.Name)
		}
		w.create(secret.DeepCopy())
	}
}

func TestNoGenerationIsGivenTwiceAfterARestoreFromAnOlderBackup(t *testing.T) {
	t.Parallel()
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		for how, change := range map[string]func(*corev1.Secret){
			"with annotations":    func(*corev1.Secret) {},
			"without annotations": func(s *corev1.Secret) { s.Annotations = nil },
		} {
			t.Run(string(kind)+" "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.stores = authority.WithoutStores
				w.dualRole(3)
				w.settle()
				w.nobodyReads()
				saved := w.backup(kind)
				for _, secret := range saved {
					change(secret)
				}
				w.replace(kind)
				w.settle()

				w.restore(saved)
				w.settle()
				w.wantHigher(kind, 1)
				w.replace(kind)
				w.settle()

				w.wantReady()
				w.wantHigher(kind, 2)
			})
		}
	}
}

// wantHigher checks that the generations of an authority are higher than one that was given.
func (w *world) wantHigher(kind authorities.Kind, than int) {
	w.t.Helper()
	for name, annotation := range map[string]string{
		kind.KeySecret(clusterName): authorities.KeyGenerationAnnotation, kind.CertSecret(clusterName): authorities.CertGenerationAnnotation,
	} {
		got, err := strconv.Atoi(w.secret(name).Annotations[annotation])
		if err != nil || got <= than {
			w.t.Errorf("Secret %s has generation %d, want more than %d: %s", name, got, than, w.status(w.t.Context()))
		}
	}
}

func TestACertificateThatIsRestoredWithoutItsKeyLendsItsNameToNoOther(t *testing.T) {
	t.Parallel()
	for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(1)
			w.settle()
			saved := w.backup(kind)[1]

			again := newWorld(t)
			saved.Namespace = again.namespace
			again.create(saved)
			again.dualRole(1)
			again.settle()

			again.wantReady()
			if got, want := subjects(bundle(again.caCertificate(kind)))[0], string(kind)+" v1"; got != want {
				t.Errorf("the new CA is called %s, want %s", got, want)
			}
			again.wantHigher(kind, 0)
		})
	}
}

func TestWhereAPodSetAloneTellsOfALostCAItsSuccessorIsCountedOnFromIt(t *testing.T) {
	t.Parallel()
	for name, replaced := range map[string]int{"the first one": 0, "its successor": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(1)
			w.settle()
			w.nobodyReads()
			for range replaced {
				w.replace(authorities.Cluster)
				w.settle()
			}
			w.replace(authorities.Clients)
			w.settle()

			w.lockedOut, w.users = true, nil // what has signed for them is lost for good
			for _, kind := range []authorities.Kind{authorities.Cluster, authorities.Clients} {
				w.lose(kind, theKey|theCertificate|theAnchors)
			}
			w.lose(authorities.Cluster, theNodes|theOperators)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "my-dual-0"}}
			if err := w.api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
			w.runKubelet(t.Context())
			w.settle()

			w.wantReady()
			w.wantHigher(authorities.Cluster, replaced)
			w.wantHigher(authorities.Clients, 1)
		})
	}
}
