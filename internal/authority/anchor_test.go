package authority_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestTheTrustedCertsSecretIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	a, b := pkitest.CA(t, "a", noon()).Certificate(), pkitest.CA(t, "b", noon()).Certificate()
	data := authority.TrustedCerts(authority.Stored{}, []authority.Anchor{
		{Certificate: a, State: trust.InUseAll}, {Certificate: b, State: trust.PhaseOut},
	})
	want := map[string][]byte{
		pki.SHA1Name(a) + ".crt": pki.EncodeBundle(a), pki.SHA1Name(a) + ".state": []byte("TRUSTED_IN_USE_ALL"),
		pki.SHA1Name(b) + ".crt": pki.EncodeBundle(b), pki.SHA1Name(b) + ".state": []byte("PHASE_OUT"),
	}
	wantSameData(t, want, data)
	states := map[string]trust.State{}
	for _, anchor := range authority.StoredAnchors(authority.Stored{Exists: true, Data: data}) {
		states[anchor.Certificate.Subject.CommonName] = anchor.State
	}
	if diff := cmp.Diff(map[string]trust.State{"a": trust.InUseAll, "b": trust.PhaseOut}, states); diff != "" {
		t.Error(diff)
	}
}

func TestAnAnchorThatStaysKeepsItsText(t *testing.T) {
	t.Parallel()
	ca, another := pkitest.CA(t, "a", noon()).Certificate(), pkitest.CA(t, "b", noon()).Certificate()
	name := pki.SHA1Name(ca) + ".crt"
	tests := map[string]struct {
		stored []byte
		kept   bool
	}{
		"the same certificate, written otherwise": {append([]byte("\n"), pki.EncodeBundle(ca)...), true},
		"another certificate under its name":      {pki.EncodeBundle(another), false},
		"two certificates":                        {pki.EncodeBundle(ca, another), false},
		"garbage":                                 {[]byte("garbage"), false},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			stored := authority.Stored{Exists: true, Data: map[string][]byte{name: tc.stored}}
			data := authority.TrustedCerts(stored, []authority.Anchor{{Certificate: ca, State: trust.Untrusted}})
			want := pki.EncodeBundle(ca)
			if tc.kept {
				want = tc.stored
			}
			if !bytes.Equal(data[name], want) {
				t.Errorf("kept: %t", bytes.Equal(data[name], tc.stored))
			}
		})
	}
}

func TestHowStoredAnchorsAreRead(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "a", noon()).Certificate()
	text := pki.EncodeBundle(ca)
	tests := map[string]struct {
		data map[string][]byte
		want []trust.State
	}{
		"a state":                        {map[string][]byte{"x.crt": text, "x.state": []byte("PHASE_OUT")}, []trust.State{trust.PhaseOut}},
		"a state with a line break":      {map[string][]byte{"x.crt": text, "x.state": []byte("PHASE_OUT\n")}, []trust.State{trust.PhaseOut}},
		"a state that nobody knows":      {map[string][]byte{"x.crt": text, "x.state": []byte("NONSENSE")}, []trust.State{trust.Untrusted}},
		"no state":                       {map[string][]byte{"x.crt": text}, []trust.State{trust.Untrusted}},
		"a state alone":                  {map[string][]byte{"x.state": []byte("PHASE_OUT")}, nil},
		"one certificate, two names":     {map[string][]byte{"x.crt": text, "x.state": []byte("PHASE_OUT"), "y.crt": text}, []trust.State{trust.PhaseOut}},
		"a damaged entry":                {map[string][]byte{"x.crt": text[:100]}, nil},
		"several certificates, one name": {map[string][]byte{"x.crt": bytes.Repeat(text, 2)}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []trust.State
			for _, anchor := range authority.StoredAnchors(authority.Stored{Exists: true, Data: tc.data}) {
				got = append(got, anchor.State)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzStoredAnchors(f *testing.F) {
	text := pki.EncodeBundle(pkitest.CA(f, "ca", noon()).Certificate())
	f.Add("a.crt", text, []byte("UNTRUSTED"))
	f.Add(".crt", []byte("x"), []byte(""))
	f.Fuzz(func(t *testing.T, key string, cert, state []byte) {
		t.Helper()

		anchors := authority.StoredAnchors(authority.Stored{Exists: true, Data: map[string][]byte{key: cert, "a.state": state}})
		again := authority.StoredAnchors(authority.Stored{Exists: true, Data: authority.TrustedCerts(authority.Stored{}, anchors)})
		if len(again) != len(anchors) {
			t.Errorf("%d anchors were written and %d read", len(anchors), len(again))
		}
	})
}
