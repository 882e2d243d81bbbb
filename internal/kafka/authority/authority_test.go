package authority_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// noon is the time at which everything begins.
func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

const day = authority.Day

// world is a cluster as far as its authority can see it.
type world struct {
	tb testing.TB
	in authority.Input
}

// newWorld is a cluster of which nothing exists, with keys that are made quickly.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	return &world{tb: tb, in: authority.Input{
		Kind:    authority.ClusterCA,
		Cluster: "my",
		Spec:    authority.Spec{Source: authority.Generated, KeyAlgorithm: pki.ECDSA, KeySize: 256},
		Stores:  authority.WithStores,
		Window:  authority.Window{Open: true},
		Now:     noon(),
	}}
}

// runningWorld is a cluster with its authority, trusted by pods of generation 0.
func runningWorld(tb testing.TB) *world {
	tb.Helper()
	w := newWorld(tb)
	w.step()
	w.runs()
	return w
}

func (w *world) runs() {
	w.in.Evidence = authority.Evidence{Dependants: []string{"Pod my-brk-0"}}
	w.trusts(w.cert())
}

func (w *world) trusts(certs ...*x509.Certificate) {
	data := map[string][]byte{}
	for _, cert := range certs {
		data[pki.SHA1Name(cert)+".crt"] = pki.EncodeBundle(cert)
		data[pki.SHA1Name(cert)+".state"] = []byte(authority.TrustedInUseAll)
	}
	w.in.TrustedCerts = authority.Stored{Exists: true, Data: data}
}

func (w *world) decide() authority.Decision {
	w.tb.Helper()
	d, err := authority.Decide(w.in)
	if err != nil {
		w.tb.Fatalf("Decide: %v", err)
	}
	return d
}

// step decides and writes both Secrets.
func (w *world) step() authority.Decision {
	w.tb.Helper()
	d := w.decide()
	w.writeKey(d)
	w.writeCert(d)
	return d
}

func (w *world) writeKey(d authority.Decision)  { w.in.KeySecret = write(w.in.KeySecret, d.Key) }
func (w *world) writeCert(d authority.Decision) { w.in.CertSecret = write(w.in.CertSecret, d.Cert) }

// write is what server-side apply and the removal of served requests do.
func write(stored authority.Stored, desired authority.Desired) authority.Stored {
	if !desired.Ours {
		return stored
	}
	annotations := maps.Clone(stored.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, desired.Annotations)
	for _, key := range desired.RemoveAnnotations {
		delete(annotations, key)
	}
	return authority.Stored{Exists: true, Data: maps.Clone(desired.Data), Annotations: annotations}
}

func (w *world) cert() *x509.Certificate {
	w.tb.Helper()
	return parse(w.tb, w.in.CertSecret.Data["ca.crt"])
}

func parse(tb testing.TB, text []byte) *x509.Certificate {
	tb.Helper()
	cert, err := pki.ParseCertificate(text)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

// other is an authority that has nothing to do with the cluster.
func other(tb testing.TB, name string, now time.Time) pki.Authority {
	tb.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{Organization: "example", CommonName: name}, Key: pki.KeyParams{Algorithm: pki.ECDSA, Size: 256}, Validity: 365 * day, Now: now,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

func kinds(d authority.Decision) []authority.TransitionKind {
	var out []authority.TransitionKind
	for _, transition := range d.Transitions {
		out = append(out, transition.Kind)
	}
	return out
}

func wantKinds(t *testing.T, d authority.Decision, want ...authority.TransitionKind) {
	t.Helper()
	if got := kinds(d); !slices.Equal(got, want) {
		t.Errorf("transitions %v, want %v", got, want)
	}
}

func wantGenerations(t *testing.T, d authority.Decision, cert, key authority.Generation) {
	t.Helper()
	if d.CertGeneration != cert || d.KeyGeneration != key {
		t.Errorf("generations %s/%s, want %s/%s", d.CertGeneration, d.KeyGeneration, cert, key)
	}
}

func wantSameData(t *testing.T, before, after map[string][]byte) {
	t.Helper()
	if !slices.Equal(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))) {
		t.Errorf("keys %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	for key := range before {
		if !bytes.Equal(before[key], after[key]) {
			t.Errorf("%s changed", key)
		}
	}
}

// wantProblem expects an InvalidResourceError that mentions every fragment.
func wantProblem(t *testing.T, err error, fragments ...string) {
	t.Helper()
	invalid, ok := errors.AsType[*authority.InvalidResourceError](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidResourceError", err)
	}
	for _, fragment := range fragments {
		if !strings.Contains(err.Error(), fragment) {
			t.Errorf("the message does not mention %q: %s", fragment, err)
		}
	}
	for _, problem := range invalid.Problems {
		if problem.Object == "" || problem.Wrong == "" || problem.Remedy == "" {
			t.Errorf("a problem is not complete: %+v", problem)
		}
	}
	if strings.Contains(err.Error(), "-----") {
		t.Error("the message contains PEM")
	}
}
