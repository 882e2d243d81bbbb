package authority_test

import (
	"bytes"
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestAReplacementIsPreparedBesideWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	present := w.decide()
	r, err := authority.PrepareReplacement(w.in, present)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Incoming.Certificate().Subject.String(); got != "CN=cluster-ca v1,O=io.strimzi" {
		t.Errorf("subject %q", got)
	}
	if r.Strategy != authority.CrossSigned || r.Cross == nil {
		t.Fatalf("strategy %s (%s)", r.Strategy, r.Reason)
	}
	presented := append([]*x509.Certificate{leafOf(t, r.Incoming)}, r.Incoming.Presents()...)
	for name, anchor := range map[string]*x509.Certificate{"old": present.Certificate, "new": r.Incoming.Certificate()} {
		if err := pki.Verify(presented, []*x509.Certificate{anchor}, noon()); err != nil {
			t.Errorf("%s trust: %v", name, err)
		}
	}
	if !bytes.Equal(r.Key.Data["ca.key"], w.in.KeySecret.Data["ca.key"]) {
		t.Error("the key in use changed")
	}

	w.in.KeySecret = write(w.in.KeySecret, r.Key)
	read, found, err := authority.ReadReplacement(w.in.KeySecret)
	if err != nil || !found {
		t.Fatalf("found %t, %v", found, err)
	}
	if read.Strategy != authority.CrossSigned || !read.Cross.Equal(r.Cross) || !read.Incoming.Key().Equal(r.Incoming.Key()) {
		t.Error("another replacement came back")
	}
	d := w.step()
	wantKinds(t, d)
	wantSameData(t, r.Key.Data, d.Key.Data)
	wantGenerations(t, d, 0, 0)
}

func TestAnAuthorityOfPathLengthZeroIsReplacedTheClassicWay(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, w *world){
		"the present certificate has it": func(t *testing.T, w *world) {
			t.Helper()

			limited := crossSigned(t)
			w.in.KeySecret.Data["ca.key"] = limited.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(limited.Certificate())
		},
		"an anchor that pods still trust has it": func(t *testing.T, w *world) {
			t.Helper()

			limited := crossSigned(t)
			renewed, err := pki.RenewCA(limited.Certificate(), limited.Key(), 365*day, noon())
			if err != nil {
				t.Fatal(err)
			}
			w.in.KeySecret.Data["ca.key"] = limited.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(renewed.Certificate())
			w.trusts(limited.Certificate(), renewed.Certificate())
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.step()
			change(t, w)
			r, err := authority.PrepareReplacement(w.in, w.decide())
			if err != nil {
				t.Fatal(err)
			}
			if r.Strategy != authority.Classic || r.Cross != nil || r.Reason == "" {
				t.Errorf("strategy %s (%s)", r.Strategy, r.Reason)
			}
			read, found, err := authority.ReadReplacement(write(w.in.KeySecret, r.Key))
			if err != nil || !found || read.Strategy != authority.Classic {
				t.Errorf("read back as %s, %t, %v", read.Strategy, found, err)
			}
		})
	}
}

// crossSigned is an authority with path length 0.
func crossSigned(t *testing.T) pki.Authority {
	t.Helper()
	above, below := other(t, "above", noon()), other(t, "below", noon())
	cert, err := pki.CrossSign(above, below.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}
	limited, err := pki.NewAuthority(cert, below.Key())
	if err != nil {
		t.Fatal(err)
	}
	return limited
}

func TestOnlyUnexpiredCertificatesDecideAboutTheStrategy(t *testing.T) {
	t.Parallel()
	limited := crossSigned(t)
	later := noon().Add(370 * day)
	renewed, err := pki.RenewCA(limited.Certificate(), limited.Key(), 365*day, later)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.step()
	w.in.Now = later
	w.in.KeySecret.Data["ca.key"] = limited.Key().PEM()
	w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(renewed.Certificate())
	w.trusts(limited.Certificate(), renewed.Certificate())
	present := w.decide()
	r, err := authority.PrepareReplacement(w.in, present)
	if err != nil || r.Strategy != authority.CrossSigned {
		t.Errorf("after the end of the limited one: %s (%s), %v", r.Strategy, r.Reason, err)
	}
	w.in.Now = later.Add(366 * day)
	r, err = authority.PrepareReplacement(w.in, present)
	if err != nil || r.Strategy != authority.Classic {
		t.Errorf("after the end of all: %s (%s), %v", r.Strategy, r.Reason, err)
	}
}

func TestAUsersKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	w, _ := userWorld(t)
	if _, err := authority.PrepareReplacement(w.in, w.decide()); err == nil {
		t.Error("a user's key was replaced")
	}
}

func TestHalfAReplacementIsAnError(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	r, err := authority.PrepareReplacement(w.in, w.decide())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(data map[string][]byte){
		"without its certificate":         func(data map[string][]byte) { delete(data, authority.PendingCertKey) },
		"with a key cut off":              func(data map[string][]byte) { data[authority.PendingKeyKey] = data[authority.PendingKeyKey][:50] },
		"with another key":                func(data map[string][]byte) { data[authority.PendingKeyKey] = data["ca.key"] },
		"with garbage for a certificate":  func(data map[string][]byte) { data[authority.PendingCertKey] = []byte("x") },
		"with garbage for its cross cert": func(data map[string][]byte) { data[authority.PendingCrossKey] = []byte("x") },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := write(authority.Stored{}, r.Key)
			change(stored.Data)
			if _, found, err := authority.ReadReplacement(stored); err == nil || found {
				t.Errorf("found %t, %v", found, err)
			}
		})
	}
	if _, found, err := authority.ReadReplacement(w.in.KeySecret); err != nil || found {
		t.Errorf("where there is none: found %t, %v", found, err)
	}
}
