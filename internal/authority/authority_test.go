package authority_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/trust"
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
		Names:  authorities.Cluster.Names("my"),
		Spec:   authority.Spec{Source: authority.Generated, KeyAlgorithm: pki.ECDSA, KeySize: 256},
		Stores: authority.WithStores,
		Window: authority.Window{Open: true},
		Now:    noon(),
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

// asks sets an annotation as a person does.
func (w *world) asks(annotation, value string) {
	stored := &w.in.KeySecret
	if annotation == authorities.ForceRenewAnnotation {
		stored = &w.in.CertSecret
	}
	stored.Annotations = maps.Clone(stored.Annotations)
	if stored.Annotations == nil {
		stored.Annotations = map[string]string{}
	}
	stored.Annotations[annotation] = value
}

// starts begins a replacement of the key, as far as hold.
func (w *world) starts() outcome {
	w.tb.Helper()
	w.asks(authorities.ForceReplaceAnnotation, "true")
	return w.step()
}

// trusts makes pods mount anchors, of which the first is in use.
func (w *world) trusts(certs ...*x509.Certificate) {
	data := map[string][]byte{}
	for i, cert := range certs {
		state := trust.InUseAll
		if i > 0 {
			state = trust.TrustedUnused
		}
		data[pki.SHA1Name(cert)+".crt"] = pki.EncodeBundle(cert)
		data[pki.SHA1Name(cert)+".state"] = []byte(state)
	}
	w.in.TrustedCerts = authority.Stored{Exists: true, Data: data}
}

func (w *world) decide() authority.Decision {
	w.tb.Helper()
	d, err := authority.Decide(w.in)
	if err == nil && d.Demand != nil {
		in, making := w.in, authority.Making{}
		if in.Making != nil {
			making = *in.Making
		}
		in.Making = &making
		if making.Key, err = pki.GenerateKey(*d.Demand.Key); err == nil {
			d, err = authority.Decide(in)
		}
	}
	if err != nil {
		w.tb.Fatalf("Decide: %v", err)
	}
	return d
}

// stage says how far everybody has got with what a decision wants.
type stage func(w *world, d authority.Decision) authority.Plan

// hold: everybody is told to trust the target, and nothing relies on it yet. A
// certificate that was renewed verifies what the one before it did, and leads at
// once.
func hold(w *world, d authority.Decision) authority.Plan {
	bundle := w.known(d)
	if d.Pending == nil && pki.KeyIDOf(bundle[0]) == pki.KeyIDOf(d.Target()) {
		return turn(w, d)
	}
	return authority.Plan{Application: bundle, Signer: d.Certificate, Stored: bundle, Done: len(bundle) == 1}
}

// turn: every node presents what the target signed.
func turn(w *world, d authority.Decision) authority.Plan {
	bundle := []*x509.Certificate{d.Target()}
	for _, cert := range w.known(d) {
		if !cert.Equal(d.Target()) {
			bundle = append(bundle, cert)
		}
	}
	return authority.Plan{Application: bundle, Signer: d.Target(), Stored: bundle, Done: len(bundle) == 1}
}

// finish: nobody trusts anything but the target.
func finish(_ *world, d authority.Decision) authority.Plan {
	bundle := []*x509.Certificate{d.Target()}
	return authority.Plan{Application: bundle, Signer: d.Target(), Stored: bundle, Done: true}
}

// known are the present certificate, the anchors that pods mount, and the target;
// what is published keeps its order.
func (w *world) known(d authority.Decision) []*x509.Certificate {
	var known []*x509.Certificate
	for _, anchor := range authority.StoredAnchors(w.in.TrustedCerts) {
		known = append(known, anchor.Certificate)
	}
	known = append(known, d.Certificate, d.Target())
	var bundle []*x509.Certificate
	for _, cert := range append(slices.Clone(d.Published), known...) {
		if containsCert(known, cert) && !containsCert(bundle, cert) {
			bundle = append(bundle, cert)
		}
	}
	return bundle
}

func containsCert(certs []*x509.Certificate, cert *x509.Certificate) bool {
	return slices.ContainsFunc(certs, cert.Equal)
}

// outcome is a decision with what was settled by it.
type outcome struct {
	authority.Decision

	plan authority.Plan
	// settled hides what the decision calls by the same names.
	settled *authority.Settled
}

// settle decides, and settles what is written at a stage.
func (w *world) settle(at stage) outcome {
	w.tb.Helper()
	d := w.decide()
	plan := at(w, d)
	settled, err := d.Settle(plan)
	if err != nil {
		w.tb.Fatalf("Settle: %v", err)
	}
	return outcome{Decision: d, plan: plan, settled: &settled}
}

// step decides and writes everything.
func (w *world) step(at ...stage) outcome {
	w.tb.Helper()
	var o outcome
	for _, s := range append(at, hold)[:max(len(at), 1)] {
		o = w.settle(s)
		w.writeKey(o)
		w.writeCert(o)
		if w.in.TrustedCerts.Exists {
			w.trusts(o.plan.Stored...)
		}
	}
	return o
}

func (w *world) writeKey(o outcome)  { w.in.KeySecret = write(w.in.KeySecret, o.settled.Key) }
func (w *world) writeCert(o outcome) { w.in.CertSecret = write(w.in.CertSecret, o.settled.Cert) }

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
	cert, err := pki.FirstCertificate(w.in.CertSecret.Data["ca.crt"])
	if err != nil {
		w.tb.Fatal(err)
	}
	return cert
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
func kinds(o outcome) []authority.TransitionKind {
	var out []authority.TransitionKind
	for _, transition := range o.settled.Transitions {
		out = append(out, transition.Kind)
	}
	return out
}

func wantKinds(t *testing.T, d outcome, want ...authority.TransitionKind) {
	t.Helper()
	if got := kinds(d); !slices.Equal(got, want) {
		t.Errorf("transitions %v, want %v", got, want)
	}
}

func wantGenerations(t *testing.T, d outcome, cert, key authority.Generation) {
	t.Helper()
	if d.settled.CertGeneration != cert || d.settled.KeyGeneration != key {
		t.Errorf("generations %s/%s, want %s/%s", d.settled.CertGeneration, d.settled.KeyGeneration, cert, key)
	}
}

// wantStore expects a PKCS#12 store with exactly these certificates.
func wantStore(t *testing.T, o outcome, certs ...*x509.Certificate) {
	t.Helper()
	var entries []pki.TrustEntry
	for _, cert := range certs {
		entries = append(entries, pki.TrustEntry{Certificate: cert})
	}
	if !pki.TrustStoreHolds(o.settled.Cert.Data["ca.p12"], string(o.settled.Cert.Data["ca.password"]), entries) {
		t.Errorf("the store does not hold exactly %d certificates", len(certs))
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
