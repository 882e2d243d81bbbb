package pki_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/pki"
)

func TestNamesAreSortedIntoAddressesAndDNSNames(t *testing.T) {
	t.Parallel()
	sans := names(t, "b.example.org", "2001:0DB8:0:0:0:0:0:1", "10.0.0.2", "a", "*.example.org", "10.0.0.2", "::ffff:10.0.0.1", "dot.example.org.")
	want := []string{"*.example.org", "a", "b.example.org", "dot.example.org", "dot.example.org.", "10.0.0.1", "10.0.0.2", "2001:db8::1"}
	if diff := cmp.Diff(want, sans.Values()); diff != "" {
		t.Error(diff)
	}
}

func TestWrongNamesAreAllReported(t *testing.T) {
	t.Parallel()
	wrong := []string{"", "a..b", "-a", "a-", "a_b", "a*.b", "*", "fe80::1%eth0", strings.Repeat("a", 64), strings.Repeat("a.", 128) + "aa", "ü"}
	_, err := pki.NewSANs(append(wrong, "fine.example.org")...)
	if err == nil {
		t.Fatal("accepted")
	}
	if got := len(strings.Split(err.Error(), "\n")); got != len(wrong) {
		t.Errorf("%d of %d wrong names were reported:\n%v", got, len(wrong), err)
	}
}

func TestNamesAreComparedAsSets(t *testing.T) {
	t.Parallel()
	a := names(t, "A.example.org", "10.0.0.1")
	if !a.Equal(names(t, "10.0.0.1", "a.example.org")) {
		t.Error("order or letter case counts")
	}
	if a.Equal(names(t, "10.0.0.1")) || a.Equal(names(t, "10.0.0.1", "a.example.org", "b")) {
		t.Error("different sets are equal")
	}
	if diff := cmp.Diff([]string{"b"}, a.Lacks(names(t, "b", "a.example.org"))); diff != "" {
		t.Error(diff)
	}
}

func TestAWildcardCoversOneLabel(t *testing.T) {
	t.Parallel()
	have := names(t, "*.example.org", "10.0.0.1")
	got := have.Uncovered(names(t, "a.example.org", "a.b.example.org", "example.org", "10.0.0.1", "10.0.0.2"))
	if diff := cmp.Diff([]string{"10.0.0.2", "a.b.example.org", "example.org"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestANameThatEndsInADotCoversNone(t *testing.T) {
	t.Parallel()
	have := pki.SANs{DNS: []string{"a.example.org."}}
	got := have.Uncovered(names(t, "a.example.org."))
	if diff := cmp.Diff([]string{"a.example.org", "a.example.org."}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNamesComeBackFromACertificate(t *testing.T) {
	t.Parallel()
	spec := leafSpec(t)
	if got := pki.SANsOf(issue(t, newCA(t, "ca"), spec)); !got.Equal(spec.SANs) {
		t.Errorf("got %v, want %v", got.Values(), spec.SANs.Values())
	}
}

func FuzzNewSANs(f *testing.F) {
	for _, seed := range []string{"a.example.org", "*.a", "10.0.0.1", "::1", "a..", "fe80::1%1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		t.Helper()

		sans, err := pki.NewSANs(value)
		if err != nil {
			return
		}
		again, err := pki.NewSANs(sans.Values()...)
		if err != nil || !again.Equal(sans) {
			t.Errorf("%q does not survive: %v", value, err)
		}
	})
}
