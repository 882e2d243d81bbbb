package authority_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

// What an idle operator pays for each authority at each pass, with the default
// key of RSA 4096.
func BenchmarkDecideNothing(b *testing.B) {
	w := newWorld(b)
	w.in.Spec = authority.Spec{}
	w.step()
	w.runs()
	b.ReportAllocs()
	for b.Loop() {
		d, err := authority.Decide(w.in)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.Settle(hold(w, d)); err != nil {
			b.Fatal(err)
		}
	}
}

// What it pays for each leaf.
func BenchmarkDecideLeafNothing(b *testing.B) {
	in := settled(b)
	in.Want.Key = pki.DefaultLeafKey(pki.RSA)
	in = storedLeaf(b, in)
	b.ReportAllocs()
	for b.Loop() {
		if got := authority.DecideLeaf(in); got.Act != authority.KeepLeaf {
			b.Fatal(got)
		}
	}
}
