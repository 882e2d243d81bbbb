package authority_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func leafOf(tb testing.TB, ca pki.Authority) *x509.Certificate {
	tb.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		tb.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "leaf"}, Usages: pki.BothUsages(), Validity: day, Now: noon(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return leaf
}

func TestBadSecretsOfAGeneratedAuthorityAreReportedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change   func(t *testing.T, w *world)
		mentions []string
	}{
		"ca.key is missing in a Secret that is there": {
			func(_ *testing.T, w *world) { delete(w.in.KeySecret.Data, "ca.key") },
			[]string{"Secret my-cluster-ca:", "ca.key is missing"},
		},
		"ca.key is empty": {
			func(_ *testing.T, w *world) { w.in.KeySecret.Data["ca.key"] = nil },
			[]string{"ca.key is missing"},
		},
		"ca.key is cut off": {
			func(_ *testing.T, w *world) { w.in.KeySecret.Data["ca.key"] = w.in.KeySecret.Data["ca.key"][:60] },
			[]string{"ca.key", "cut off"},
		},
		"ca.crt is cut off": {
			func(_ *testing.T, w *world) { w.in.CertSecret.Data["ca.crt"] = w.in.CertSecret.Data["ca.crt"][:200] },
			[]string{"Secret my-cluster-ca-cert:", "ca.crt", "cut off"},
		},
		"key and certificate are swapped": {
			func(_ *testing.T, w *world) {
				w.in.CertSecret.Data["ca.crt"], w.in.KeySecret.Data["ca.key"] = w.in.KeySecret.Data["ca.key"], w.in.CertSecret.Data["ca.crt"]
			},
			[]string{"a private key was found", "a certificate was found"},
		},
		"the certificate belongs to another key": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(pkitest.CA(t, "x", noon()).Certificate())
			},
			[]string{"does not belong to ca.key"},
		},
		"two CAs are in one file and nothing is known of any": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.TrustedCerts = authority.Stored{}
				w.in.CertSecret.Data["ca.crt"] = append(bytes.Clone(w.in.CertSecret.Data["ca.crt"]), pki.EncodeBundle(pkitest.CA(t, "x", noon()).Certificate())...)
			},
			[]string{"2 certificates", "generateCertificateAuthority"},
		},
		"one of two certificates is a leaf": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = append(bytes.Clone(w.in.CertSecret.Data["ca.crt"]), pki.EncodeBundle(leafOf(t, pkitest.CA(t, "x", noon())))...)
			},
			[]string{"ca.crt", "not a CA"},
		},
		"none of two certificates belongs to the key": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(pkitest.CA(t, "x", noon()).Certificate(), pkitest.CA(t, "y", noon()).Certificate())
			},
			[]string{"does not belong to ca.key"},
		},
		"a promotion was interrupted, ca.crt was edited, and nobody trusts the new one": {
			func(t *testing.T, w *world) {
				t.Helper()

				old := w.cert()
				w.starts()
				w.writeKey(w.settle(turn))
				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(old)
				w.trusts(old)
			},
			[]string{"does not belong to ca.key"},
		},
		"half a replacement is pending": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.KeySecret.Data["next-ca.key"] = pkitest.CA(t, "x", noon()).Key().PEM()
			},
			[]string{"Secret my-cluster-ca:", "next-ca.crt", "keyturn.dev/abort-replace"},
		},
		"the pending key is cut off": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.starts()
				w.in.KeySecret.Data["next-ca.key"] = w.in.KeySecret.Data["next-ca.key"][:50]
			},
			[]string{"next-ca.key", "cut off"},
		},
		"the pending certificate belongs to another key": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.starts()
				w.in.KeySecret.Data["next-ca.crt"] = pki.EncodeBundle(pkitest.CA(t, "x", noon()).Certificate())
			},
			[]string{"next-ca.key and next-ca.crt", "does not belong"},
		},
		"half a replacement is pending and the key is lost": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.KeySecret.Data = map[string][]byte{"next-ca.key": pkitest.CA(t, "x", noon()).Key().PEM()}
				w.in.KeySecret.Annotations["keyturn.dev/abort-replace"] = "true"
			},
			[]string{"next-ca.crt", "delete the whole Secret"},
		},
		"the certificate is a leaf": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(leafOf(t, pkitest.CA(t, "x", noon())))
			},
			[]string{"not a CA"},
		},
		"a foreign CA whose key and certificate fit": {
			func(t *testing.T, w *world) {
				t.Helper()

				foreign := pkitest.CA(t, "x", noon())
				w.in.KeySecret.Data["ca.key"] = foreign.Key().PEM()
				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(foreign.Certificate())
			},
			[]string{"foreign CA", "strimzi.io/force-replace=true"},
		},
		"trusted-certs of an earlier day": {
			func(t *testing.T, w *world) {
				t.Helper()

				later := pkitest.CA(t, "x", noon())
				w.in.KeySecret.Data["ca.key"] = later.Key().PEM()
				w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(later.Certificate())
				w.in.Evidence.Issued = append(w.in.Evidence.Issued, leafOf(t, later))
			},
			[]string{"trusted-certs", "earlier day", "delete it"},
		},
		"a foreign key without a certificate": {
			func(t *testing.T, w *world) {
				t.Helper()

				w.in.KeySecret.Data["ca.key"] = pkitest.CA(t, "x", noon()).Key().PEM()
				delete(w.in.CertSecret.Data, "ca.crt")
			},
			[]string{"foreign CA"},
		},
		"a password that no store can have": {
			func(_ *testing.T, w *world) { w.in.CertSecret.Data["ca.password"] = []byte("\U0001F511") },
			[]string{"ca.p12", "remove ca.password"},
		},
		"a generation that is none": {
			func(_ *testing.T, w *world) {
				w.in.KeySecret.Annotations["strimzi.io/ca-key-generation"] = "first"
			},
			[]string{"strimzi.io/ca-key-generation", "first"},
		},
		"several things at once": {
			func(_ *testing.T, w *world) {
				w.in.KeySecret.Data["ca.key"] = []byte("x")
				w.in.CertSecret.Data["ca.crt"] = []byte("y")
			},
			[]string{"Secret my-cluster-ca:", "Secret my-cluster-ca-cert:"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			tc.change(t, w)
			d, err := authority.Decide(w.in)
			if err == nil {
				_, err = d.Settle(hold(w, d))
			}
			authoritytest.WantProblem(t, err, tc.mentions...)
			if settled, err := d.Settle(authority.Plan{}); err == nil && (settled.Key.Ours || settled.Cert.Ours) {
				t.Error("something would be written")
			}
		})
	}
}

func TestBadSettingsAreReportedTogether(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec     authority.Spec
		mentions []string
	}{
		"renewal as long as validity":   {authority.Spec{ValidFor: 30 * authority.Day, RenewBefore: 30 * authority.Day}, []string{"spec.clusterCa", "renewalDays (30)", "validityDays (30)"}},
		"the default renewal too long":  {authority.Spec{ValidFor: 20 * authority.Day}, []string{"renewalDays (30)"}},
		"an unknown algorithm":          {authority.Spec{KeyAlgorithm: "DSA"}, []string{`keyAlgorithm "DSA"`}},
		"a size that does not fit":      {authority.Spec{KeyAlgorithm: pki.ECDSA, KeySize: 4096}, []string{"4096"}},
		"two things at once":            {authority.Spec{ValidFor: 1 * authority.Day, KeySize: 512}, []string{"renewalDays", "512"}},
		"a user's CA has settings, too": {authority.Spec{Source: authority.UserProvided, ValidFor: 1 * authority.Day}, []string{"renewalDays"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in.Spec = tc.spec
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, tc.mentions...)
		})
	}
}

func TestDefaultsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, spec := range []authority.Spec{{}, {ValidFor: -1 * authority.Day, RenewBefore: -1 * authority.Day}} {
		if spec.Validity() != 365*day || spec.Renewal() != 30*day {
			t.Errorf("validity %s, renewal %s", spec.Validity(), spec.Renewal())
		}
		if spec.CAKey() != (pki.KeyParams{Algorithm: pki.RSA, Size: 4096}) || spec.LeafKey() != (pki.KeyParams{Algorithm: pki.RSA, Size: 2048}) {
			t.Errorf("CA key %s, leaf key %s", spec.CAKey(), spec.LeafKey())
		}
	}
}

func TestTheKeySizeIsThatOfTheAuthorityAndItsLeaves(t *testing.T) {
	t.Parallel()
	for _, params := range []pki.KeyParams{{Algorithm: pki.RSA, Size: 3072}, {Algorithm: pki.ECDSA, Size: 521}} {
		spec := authority.Spec{KeyAlgorithm: params.Algorithm, KeySize: params.Size}
		if spec.CAKey() != params || spec.LeafKey() != params {
			t.Errorf("CA key %s, leaf key %s, want %s", spec.CAKey(), spec.LeafKey(), params)
		}
	}
}

// Whatever is in the Secrets, a decision either says what is wrong or keeps a
// pair that belongs together; it never panics and never loses a readable key.
func FuzzDecide(f *testing.F) {
	w := runningWorld(f)
	key, cert := w.in.KeySecret.Data["ca.key"], w.in.CertSecret.Data["ca.crt"]
	f.Add(key, cert, "0", "true")
	f.Add(cert, key, "-1", "false")
	f.Add([]byte{}, cert, "x", "")
	f.Fuzz(func(t *testing.T, key, cert []byte, generation, request string) {
		t.Helper()

		in := w.in
		in.Stores = authority.WithoutStores
		in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.key": key}, Annotations: map[string]string{"strimzi.io/ca-key-generation": generation}}
		in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.crt": cert}, Annotations: map[string]string{"strimzi.io/force-renew": request}}
		d, err := authority.Decide(in)
		if err == nil {
			settled, err := d.Settle(hold(w, d))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(settled.Key.Data["ca.key"], key) {
				t.Error("a readable key was changed")
			}
		}
		if err != nil {
			if _, ok := errors.AsType[*authority.InvalidResourceError](err); !ok {
				t.Fatalf("another kind of error: %v", err)
			}
			return
		}
		if !d.Authority.Key().Matches(d.Certificate) {
			t.Error("key and certificate do not belong together")
		}
	})
}

// Whatever stands beside the present pair in its Secret, what can be decided can
// be settled, the present key stays or is filed, and the result is read back.
func FuzzDecideBesides(f *testing.F) {
	w := newWorld(f)
	w.in.Stores = authority.WithoutStores
	w.step()
	w.runs()
	old := w.cert()
	w.starts()
	next := w.in.KeySecret.Data
	f.Add("next-ca.key", next["next-ca.key"], next["next-ca.crt"], next["next-ca-cross.crt"], "true")
	w.step(turn)
	promoted := w.in.KeySecret.Data
	f.Add(authority.DatedKeyKey(old), promoted[authority.DatedKeyKey(old)], pki.EncodeBundle(old), promoted["ca-cross.crt"], "now")
	f.Add("ca-2026-11-22T12-00-00Z.key", []byte("x"), []byte("x"), []byte("x"), "")
	f.Fuzz(func(t *testing.T, name string, key, cert, cross []byte, request string) {
		t.Helper()

		v := *w
		v.tb = t
		v.in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{
			"ca-cross.crt": cross, "next-ca-cross.crt": cross, "next-ca.crt": cert,
			strings.TrimSuffix(name, ".key") + ".crt": cert, name: key, "ca.key": promoted["ca.key"],
		}, Annotations: map[string]string{
			authority.AbortReplaceAnnotation: request, authorities.ForceReplaceAnnotation: request, authority.DistrustAnnotation: request,
		}}
		if _, err := authority.Decide(v.in); err != nil {
			if _, ok := errors.AsType[*authority.InvalidResourceError](err); !ok {
				t.Fatalf("another kind of error: %v", err)
			}
			return
		}
		o := v.step()
		filed := false
		for _, text := range o.settled.Key.Data {
			filed = filed || bytes.Equal(text, promoted["ca.key"])
		}
		if !filed {
			t.Error("the present key is gone")
		}
		v.settle(hold)
	})
}
