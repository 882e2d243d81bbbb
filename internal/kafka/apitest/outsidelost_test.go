package apitest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// What is lost, or has ended, while the issuer of a cluster gets another key.

func TestAClusterWhoseCertificatesHaveAllExpiredGoesOnWithTheNextKeyOfItsIssuer(t *testing.T) {
	t.Parallel()
	for name, bundle := range map[string]func(old, next pki.Authority) []byte{
		"the next CA alone is announced": func(_, next pki.Authority) []byte { return pki.EncodeBundle(next.Certificate()) },
		"both CAs are announced": func(old, next pki.Authority) []byte {
			return pki.EncodeBundle(old.Certificate(), next.Certificate())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, old := outsideCluster(t)
			w.classic() // nobody can cross-sign
			w.clock.SetTime(w.clock.Now().Add(400 * authority.Day))
			next := caNamed(t, issuersTwo, longLasting)
			w.replaceData(bundleSecret, authority.CertKey, bundle(old, next))
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.unsafe = true // what has expired is rejected whatever the operator does
			w.startOperator()
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantReady()
			w.wantLeavesOf(next)
		})
	}
}

func TestNodesAndApplicationsKeepTheOldCAWhenTheSecretsThatRecordItAreLost(t *testing.T) {
	t.Parallel()
	for far, when := range map[string]func(w *world) func() bool{
		"one node trusts both":       func(w *world) func() bool { return w.trusts(1, issuersTwo) },
		"one node presents the next": func(w *world) func() bool { return w.presents(1, issuersTwo) },
	} {
		t.Run(far, func(t *testing.T) {
			t.Parallel()
			w, next := rekeyed(t)
			w.once(when(w), func() {
				w.delete(&corev1.Secret{}, "my-cluster-ca-cert")
				w.delete(&corev1.Secret{}, "my-cluster-ca-trusted-certs")
			})
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantReady()
			w.wantLeavesOf(next)
		})
	}
}

// rekeyed is a running cluster whose issuer has just got another key, and some of whose kubelets lag.
func rekeyed(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	w, _ := outsideCluster(t)
	w.classic() // nobody can cross-sign
	w.lag["my-dual-1"], w.lag["my-dual-2"] = 1, 2
	next := caNamed(t, issuersTwo, longLasting)
	w.elsewhere.ca = next
	w.elsewhere.renew()
	w.run(4)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	return w, next
}

func TestWhatAnIssuerHasLeftIsSweptWhenItsClusterIsGone(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	w.run(1)
	if len(w.elsewhere.swept) > 0 {
		t.Fatalf("swept are %v while the cluster exists", w.elsewhere.swept)
	}

	w.deleteCluster()
	w.run(1)

	if !slices.Contains(w.elsewhere.swept, w.key(clusterName)) {
		t.Errorf("swept are %v, want the cluster that is gone", w.elsewhere.swept)
	}
}
