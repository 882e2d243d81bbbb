package apitest

import (
	"bytes"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// A certificate that was renewed lives on in the memory of Raft clients, and nowhere
// else.

func TestACertificateThatWasRenewedDoesNotComeBackWithTheNextReplacement(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.nobodyReads() // who pinned it has read the renewed one since
	before := w.caCertificate(authorities.Cluster)
	w.renew(authorities.Cluster)
	w.settle()
	w.wantNowhere(before.Raw, "after its renewal")

	w.replace(authorities.Cluster)
	for range 60 {
		w.run(1)
		w.wantNowhere(before.Raw, "while its key is replaced")
		if t.Failed() {
			return
		}
	}
	w.settle()

	w.wantNowhere(before.Raw, "after the replacement of its key")
	w.wantRemainder(firstV, nextV)
}

// wantNowhere checks that neither nodes nor applications are told of a certificate.
func (w *world) wantNowhere(der []byte, when string) {
	w.t.Helper()
	for _, name := range []string{"my-cluster-ca-trusted-certs", "my-cluster-ca-cert"} {
		for entry, text := range w.secret(name).Data {
			certs, err := pki.ParseBundle(text)
			if err != nil {
				continue
			}
			for _, cert := range certs {
				if bytes.Equal(cert.Raw, der) {
					w.t.Errorf("%s: %s of Secret %s holds it again", when, entry, name)
				}
			}
		}
	}
}
