package apitest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
)

// Users have their certificates from several CAs.

// wantClientsCAs checks what the listeners for users trust, by common name.
func (w *world) wantClientsCAs(want ...string) {
	w.t.Helper()
	for _, s := range w.servers {
		var got []string
		for _, cert := range s.loaded["mtls-9094"].trust {
			got = append(got, cert.Subject.CommonName)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			w.t.Errorf("%s trusts %v, want %v", s.pod, got, want)
		}
	}
}

func TestEveryFurtherClientsCAOfAUserIsTrustedUntilItIsTakenOut(t *testing.T) {
	t.Parallel()
	w, _ := ownClients(t)
	second := caNamed(t, "second clients", 1000*authority.Day)

	w.replaceData("my-clients-ca-cert", "second.crt", pki.EncodeBundle(second.Certificate()))
	w.settle()

	w.wantClientsCAs("corporate clients", "second clients")
	w.wantReason(clientsTrust, "Trusted", "second clients")
	if state := w.anchors(authorities.Clients)["second clients"]; state != trust.TrustedUnused {
		t.Errorf("it is %s", state)
	}

	w.dropData("my-clients-ca-cert", "second.crt")
	w.settle()

	w.wantClientsCAs("corporate clients")
	w.wantReason(clientsTrust, "Trusted")
	w.wantRestarts(0)
}

func TestAFurtherClientsCAStaysThroughAReplacementOfTheFirst(t *testing.T) {
	t.Parallel()
	w, first := ownClients(t)
	second, next := caNamed(t, "second clients", 1000*authority.Day), caNamed(t, "next clients", 1000*authority.Day)
	w.replaceData("my-clients-ca-cert", "second.crt", pki.EncodeBundle(second.Certificate()))
	w.settle()

	w.issued[string(next.Key().PEM())] = true // its users get theirs once nodes trust it
	dated := authority.DatedCertKey(first.Certificate())
	w.patch(&corev1.Secret{}, "my-clients-ca", map[string]any{"data": map[string]any{authority.KeyKey: next.Key().PEM()}})
	w.patch(&corev1.Secret{}, "my-clients-ca-cert", map[string]any{"data": map[string]any{
		authority.CertKey: pki.EncodeBundle(next.Certificate()), dated: pki.EncodeBundle(first.Certificate()),
	}})
	w.settle()

	w.wantClientsCAs("corporate clients", "next clients", "second clients")
	w.wantReason(clientsTrust, "WaitingForExpiry", "remove "+dated+" of Secret my-clients-ca-cert")

	w.users = nil // by now nobody has a certificate of the first
	w.dropData("my-clients-ca-cert", dated)
	w.settle()

	w.wantClientsCAs("next clients", "second clients")
	w.wantReason(clientsTrust, "Trusted")
}
