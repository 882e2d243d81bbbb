package apitest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// What somebody writes into annotations is not believed against what is known.

const applicationSince = "keyturn.dev/application-since"

func TestATimeThatHasNotComeYetHoldsUpNoRotation(t *testing.T) {
	t.Parallel()
	w, old := corporate(t)
	w.without[readsBundle], w.without[readsFirst] = true, true
	w.replaceOwn(caNamed(t, "corporate two", 900*authority.Day), "1", map[string][]byte{
		authority.DatedCertKey(old.Certificate()): pki.EncodeBundle(old.Certificate()),
	})
	w.once(w.trusts(1, "corporate two"), func() {
		w.annotate(&corev1.Secret{}, "my-cluster-ca-trusted-certs", map[string]any{
			applicationSince: start().Add(1000 * authority.Day).Format(time.RFC3339),
		})
	})

	w.settle()

	w.wantOwn("corporate two")
	if since := w.secret("my-cluster-ca-trusted-certs").Annotations[applicationSince]; since > w.clock.Now().Format(time.RFC3339) {
		t.Errorf("the Secret still says %s", since)
	}
}

func TestATimeThatHasNotComeYetHoldsUpNobodyWhoHasNoChoiceOfWhatToRead(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	w.nobodyReads()
	w.ahead, w.unnoticed = 200*authority.Day, true
	w.replaceOwn(caNamed(t, "corporate two", 1000*authority.Day), "1", nil)
	w.once(w.admitted(authorities.Cluster), func() { w.ahead = 0 })

	w.settle()

	w.wantOwn("corporate two")
}

func TestATimeThatHasNotComeYetKeepsNoCrossCertificateOfACompromisedAuthority(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	w.distrustNow(authorities.Cluster)
	alone := func() bool { read := w.bundleOf(authorities.Cluster); return len(read) == 1 && read[0] == nextV }
	w.once(alone, func() {
		w.annotate(&corev1.Secret{}, "my-cluster-ca-trusted-certs", map[string]any{
			applicationSince: start().Add(300 * authority.Day).Format(time.RFC3339),
		})
	})

	w.settle()

	if sent := w.sentAlong(); len(sent) > 0 {
		t.Errorf("%v are still sent along", subjects(sent))
	}
}

func TestAGenerationThatNobodyHasCountedToIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := turning(t, 1)
	w.nobodyReads()
	w.annotate(&corev1.Pod{}, "my-dual-0", map[string]any{authorities.ClusterCertGenerationAnnotation: "9223372036854775807"})
	w.renew(authorities.Cluster)

	w.settle()

	w.wantReady()
	if got := w.secret("my-cluster-ca-cert").Annotations[authorities.CertGenerationAnnotation]; got != "1" {
		t.Errorf("the generation is %s, want 1", got)
	}
}

func TestGenerationsEditedByHandDoNotGoBackwards(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.renew(authorities.Cluster)
	w.settle()
	w.renew(authorities.Cluster)
	w.settle()

	w.annotate(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{authorities.CertGenerationAnnotation: "0"})
	w.settle()

	for name, got := range map[string]string{
		"my-cluster-ca-cert": w.secret("my-cluster-ca-cert").Annotations[authorities.CertGenerationAnnotation],
		"my-dual-0":          w.secret("my-dual-0").Annotations[authorities.ClusterCertGenerationAnnotation],
	} {
		if got != "2" {
			t.Errorf("Secret %s has generation %s, want 2", name, got)
		}
	}
}
