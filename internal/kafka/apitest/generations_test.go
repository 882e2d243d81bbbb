package apitest

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// signers are the names of the CAs that have signed what a server presents to its cluster, each once, and the names of those
// that all of its stores trust.
func (s *server) signers() (signed, trusted []string) {
	isFirst := true
	for _, store := range s.started.config.Stores {
		if !listens(s.started.config, store.Role) || store.Trust != contract.ClusterDomain {
			continue
		}
		loaded := s.loaded[store.Role]
		if signer := loaded.chain[0].Issuer.CommonName; !slices.Contains(signed, signer) {
			signed = append(signed, signer)
		}
		names := subjects(loaded.trust)
		if isFirst {
			trusted, isFirst = names, false
		}
		trusted = slices.DeleteFunc(slices.Clone(trusted), func(name string) bool { return !slices.Contains(names, name) })
	}
	return signed, trusted
}

// namesWhatItHas fails the test when a pod says more than its server has: a certificate of the next CA, or trust in it.
func (w *world) namesWhatItHas(next string) {
	w.t.Helper()
	for _, pod := range slices.Sorted(maps.Keys(w.podUIDs())) {
		var stored corev1.Pod
		if err := w.api.Get(w.t.Context(), w.key(pod), &stored); err != nil || stored.DeletionTimestamp != nil {
			continue
		}
		server, runs := w.serverOf(pod)
		if !runs {
			continue
		}
		signed, trusted := server.signers()
		if stored.Annotations[model.ClusterCACertGenerationAnnotation] == "1" && !slices.Contains(signed, next) {
			w.t.Errorf("pod %s has certificate generation 1, and presents certificates of %v", pod, signed)
		}
		if stored.Annotations[model.ClusterCAKeyGenerationAnnotation] == "1" && !slices.Contains(trusted, next) {
			w.t.Errorf("pod %s has key generation 1, and trusts %v", pod, trusted)
		}
	}
}

// namesGenerations fails the test unless all pods and the Secrets of their nodes name a generation of the certificate.
func (w *world) namesGenerations(want string) {
	w.t.Helper()
	for _, pod := range slices.Sorted(maps.Keys(w.podUIDs())) {
		var stored corev1.Pod
		w.get(pod, &stored)
		inPod, inSecret := stored.Annotations[model.ClusterCACertGenerationAnnotation], w.secret(pod).Annotations[authorities.ClusterCertGenerationAnnotation]
		if inPod != want || inSecret != want {
			w.t.Errorf("pod %s has certificate generation %q and its Secret %q, want %s", pod, inPod, inSecret, want)
		}
	}
}

func TestAPodNamesTheGenerationOfTheCAWhoseCertificateItPresents(t *testing.T) {
	t.Parallel()
	t.Run("a CA of the operator gets another key", func(t *testing.T) {
		t.Parallel()
		w := turning(t, 3)
		w.replace(authorities.Cluster)
		for range 60 {
			w.run(1)
			w.namesWhatItHas(nextV)
		}
		w.settle()
		w.namesGenerations("1")
	})
	t.Run("an issuer continues to sign by the previous CA", func(t *testing.T) {
		t.Parallel()
		w, _ := outsideCluster(t)
		w.classic()
		w.lag["my-dual-1"] = 4
		next := caNamed(t, "company two", 1000*authority.Day)
		w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
		for range 40 {
			w.run(1)
			w.namesWhatItHas("company two")
		}
		w.settle()
		w.namesGenerations("0")
		w.delete(&corev1.Pod{}, "my-dual-2")
		w.settle()
		w.namesGenerations("0")
	})
}

// What an issuer keeps looks like what the operator makes of it.
func TestACertificateOfAnIssuerHasTheLabelsOfItsSecret(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	asked := w.elsewhere.labels
	for _, name := range []string{"my-dual-0", "my-cluster-operator-certs"} {
		if want := w.secret(name).Labels; !maps.Equal(asked[name], want) {
			t.Errorf("%s is requested with labels %v, and its Secret has %v", name, asked[name], want)
		}
	}
}

func TestTheSecretOfANodeNamesTheGenerationOfTheClientsCA(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	if got := w.secret("my-dual-0").Annotations[authorities.ClientsCertGenerationAnnotation]; got != "0" {
		t.Errorf("the generation is %q", got)
	}
	w.replace(authorities.Clients)
	w.settle()
	if got := w.secret("my-dual-0").Annotations[authorities.ClientsCertGenerationAnnotation]; got != "1" {
		t.Errorf("after another key the generation is %q", got)
	}
}

func TestThePodsOfTheUserOperatorNameWhatTheyPresentAndTrust(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	w.settle()
	w.companionsName("0")
	w.replace(authorities.Cluster)
	w.settle()
	w.companionsName("1")
}

func (w *world) companionsName(generation string) {
	w.t.Helper()
	secret := w.secret("my-entity-user-operator-certs")
	chain, err := pki.ParseBundle(secret.Data["entity-operator.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	var pods corev1.PodList
	w.list(&pods)
	found := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Labels[model.NameLabel] != entityOperatorName {
			continue
		}
		found++
		for name, want := range map[string]string{
			model.ClusterCACertGenerationAnnotation: generation, model.ClusterCAKeyGenerationAnnotation: generation,
			model.ServerCertHashAnnotation: pki.SHA1Name(chain[0]),
		} {
			if got := pod.Annotations[name]; got != want {
				w.t.Errorf("annotation %s of pod %s is %q, want %q", name, pod.Name, got, want)
			}
		}
	}
	if found == 0 {
		w.t.Error("the user operator has no pod")
	}
}
