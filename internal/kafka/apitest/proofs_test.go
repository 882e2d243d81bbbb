package apitest

import (
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// A user's new CA has the name of the one before it: names do not tell a server's
// anchors apart.

// proofs are the leaves for proofs in a node's Secret, by their entries.
func (w *world) proofs(pod string) map[string]*x509.Certificate {
	w.t.Helper()
	found := map[string]*x509.Certificate{}
	for entry, data := range w.secret(pod).Data {
		if name, leaf := strings.CutSuffix(entry, ".crt"); leaf && strings.HasPrefix(name, publication.ProofEntry("")) {
			found[name] = w.first(data)
		}
	}
	return found
}

// renamesake replaces the user's CA by one of the same name, which is returned.
func (w *world) renamesake(old pki.Authority) pki.Authority {
	w.t.Helper()
	w.without[readsBundle], w.without[readsFirst] = true, true
	coming := caNamed(w.t, old.Certificate().Subject.CommonName, 1000*authority.Day)
	w.replaceOwn(coming, "1", map[string][]byte{
		authority.DatedCertKey(old.Certificate()): pki.EncodeBundle(old.Certificate()),
	})
	return coming
}

func TestNodesAreGivenLeavesForProofsWhileNamesDoNotTell(t *testing.T) {
	t.Parallel()
	w, old := corporate(t)
	if given := w.proofs("my-dual-0"); len(given) > 0 {
		t.Errorf("one anchor alone needs %v", slices.Collect(maps.Keys(given)))
	}
	coming := w.renamesake(old)
	w.once(func() bool { return len(w.proofs("my-dual-0")) > 0 }, func() { w.wantProofOf("my-dual-0", coming) })
	w.settle()

	want := fingerprints([]*x509.Certificate{coming.Certificate()})
	for _, s := range w.servers {
		if got := fingerprints(s.loaded[contract.ReplicationListener].trust); !slices.Equal(got, want) {
			t.Errorf("%s trusts %v, want the new CA alone", s.pod, got)
		}
		if given := w.proofs(s.pod); len(given) > 0 {
			t.Errorf("in the end %s has %v", s.pod, slices.Collect(maps.Keys(given)))
		}
	}
}

// wantProofOf checks that the one leaf for proofs is of the authority whose key is
// held, opens nothing, and is named by the publication.
func (w *world) wantProofOf(pod string, ca pki.Authority) {
	w.t.Helper()
	key := pki.KeyIDOf(ca.Certificate()).String()
	given := w.proofs(pod)
	leaf := given[publication.ProofEntry(key)]
	if len(given) != 1 || leaf == nil {
		w.t.Fatalf("%s has %v, want a leaf of key %s alone", pod, slices.Collect(maps.Keys(given)), key)
	}
	if err := pki.Verify([]*x509.Certificate{leaf}, []*x509.Certificate{ca.Certificate()}, w.clock.Now(), pki.ClientAuth); err != nil {
		w.t.Error(err)
	}
	if leaf.Subject.String() != "CN=keyturn-proof" || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) ||
		leaf.NotAfter.After(w.clock.Now().Add(7*authority.Day)) {
		w.t.Errorf("the leaf is of %s, for %v, until %s", leaf.Subject, leaf.ExtKeyUsage, leaf.NotAfter)
	}
	published, err := publication.ParsePublication(w.secret(pod).Data[agent.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	if want := map[string]string{key: fingerprints([]*x509.Certificate{leaf})[0]}; !maps.Equal(published.Proofs, want) {
		w.t.Errorf("%s is told of %v, want %v", pod, published.Proofs, want)
	}
}

func TestLeavesForProofsStayWhileTheyLastAndAreRenewed(t *testing.T) {
	t.Parallel()
	w, old := corporate(t)
	w.lag["my-dual-1"] = stopped // it holds up the others
	coming := w.renamesake(old)
	w.run(8)
	w.wantProofOf("my-dual-0", coming)
	before := w.secret("my-dual-0")

	w.run(3)
	if after := w.secret("my-dual-0"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret was written again although nothing has changed")
	}

	w.clock.SetTime(w.clock.Now().Add(5 * authority.Day))
	w.run(3)
	w.wantProofOf("my-dual-0", coming)
	entry := publication.ProofEntry(pki.KeyIDOf(coming.Certificate()).String()) + ".crt"
	if w.first(before.Data[entry]).Equal(w.first(w.secret("my-dual-0").Data[entry])) {
		t.Error("the leaf was not renewed two days before its end")
	}
}

func TestAnchorsOfDifferentNamesNeedNoLeavesForProofs(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.replace(authorities.Cluster)
	for n := range 3 {
		w.once(w.trusts(n+1, nextV), func() {
			for _, s := range w.servers {
				if given := w.proofs(s.pod); len(given) > 0 {
					t.Errorf("%s has %v", s.pod, slices.Collect(maps.Keys(given)))
				}
			}
		})
	}
	w.settle()
}
